import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.zip.CRC32;
import javax.xml.parsers.DocumentBuilderFactory;
import javax.xml.parsers.ParserConfigurationException;
import javax.xml.parsers.SAXParserFactory;
import javax.xml.transform.Transformer;
import javax.xml.transform.TransformerException;
import javax.xml.transform.TransformerFactory;
import javax.xml.transform.dom.DOMSource;
import javax.xml.transform.stream.StreamResult;
import org.w3c.dom.Document;
import org.xml.sax.Attributes;
import org.xml.sax.SAXException;
import org.xml.sax.SAXParseException;
import org.xml.sax.helpers.DefaultHandler;

/**
 * XML without a stylesheet. Arguments: {@code validate} (Xerces checks a document against its DTD)
 * or {@code copy} (Xerces builds a tree, Xalan's identity transformation and serializer write it),
 * document, repetitions (1 by default). Class path: xalan2.jar, serializer.jar, xercesImpl.jar.
 */
public final class XmlLoad {
    private XmlLoad() {}

    /** Counts and a checksum of what the parser reports. */
    private static final class Summary extends DefaultHandler {
        private final CRC32 sum = new CRC32();
        private int elements;
        private int invalid;

        @Override
        public void startElement(String uri, String local, String name, Attributes attributes) {
            elements++;
            add(name);
            for (int i = 0; i < attributes.getLength(); i++) {
                add(attributes.getQName(i));
                add(attributes.getValue(i));
            }
        }

        @Override
        public void error(SAXParseException problem) {
            invalid++;
        }

        private void add(String text) {
            sum.update(text.getBytes(StandardCharsets.UTF_8));
        }
    }

    /** Discards the output and keeps its checksum. */
    private static final class Checksum extends OutputStream {
        private final CRC32 sum = new CRC32();

        @Override
        public void write(int b) {
            sum.update(b);
        }

        @Override
        public void write(byte[] b, int offset, int length) {
            sum.update(b, offset, length);
        }
    }

    public static void main(String[] args) throws Exception {
        int times = args.length > 2 ? Integer.parseInt(args[2]) : 1;
        for (int i = 0; i < times; i++) {
            System.out.println("XmlLoad " + (args[0].equals("validate") ? validate(args[1]) : copy(args[1])));
        }
    }

    private static String validate(String file) throws ParserConfigurationException, SAXException, IOException {
        SAXParserFactory factory = SAXParserFactory.newInstance("org.apache.xerces.jaxp.SAXParserFactoryImpl", null);
        factory.setValidating(true);
        Summary summary = new Summary();
        factory.newSAXParser().parse(file, summary);
        return "elements=" + summary.elements + " invalid=" + summary.invalid + " crc="
                + Long.toHexString(summary.sum.getValue());
    }

    private static String copy(String file)
            throws ParserConfigurationException, SAXException, IOException, TransformerException {
        Document document = DocumentBuilderFactory.newInstance("org.apache.xerces.jaxp.DocumentBuilderFactoryImpl", null)
                .newDocumentBuilder().parse(file);
        Transformer identity = TransformerFactory.newInstance("org.apache.xalan.processor.TransformerFactoryImpl", null)
                .newTransformer();
        Checksum output = new Checksum();
        identity.transform(new DOMSource(document), new StreamResult(output));
        return "crc=" + Long.toHexString(output.sum.getValue());
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
