import java.io.File;
import java.io.IOException;
import java.io.OutputStream;
import java.util.zip.CRC32;
import javax.xml.transform.Templates;
import javax.xml.transform.Transformer;
import javax.xml.transform.TransformerException;
import javax.xml.transform.TransformerFactory;
import javax.xml.transform.stream.StreamResult;
import javax.xml.transform.stream.StreamSource;

/**
 * Xalan's interpreting processor transforms a document. Arguments: stylesheet, document,
 * repetitions (1 by default). Class path: xalan2.jar, serializer.jar, xercesImpl.jar.
 */
public final class XalanLoad {
    private XalanLoad() {}

    private static final class Checksum extends OutputStream {
        private final CRC32 sum = new CRC32();
        private long bytes;

        @Override
        public void write(int b) {
            sum.update(b);
            bytes++;
        }

        @Override
        public void write(byte[] b, int offset, int length) {
            sum.update(b, offset, length);
            bytes += length;
        }
    }

    public static void main(String[] args) throws TransformerException, IOException {
        int times = args.length > 2 ? Integer.parseInt(args[2]) : 1;
        System.setProperty("javax.xml.parsers.SAXParserFactory", "org.apache.xerces.jaxp.SAXParserFactoryImpl");
        TransformerFactory factory = TransformerFactory.newInstance("org.apache.xalan.processor.TransformerFactoryImpl", null);
        Templates templates = factory.newTemplates(new StreamSource(new File(args[0])));
        for (int i = 0; i < times; i++) {
            Transformer transformer = templates.newTransformer();
            transformer.setParameter("letter", String.valueOf((char) ('a' + i % 26)));
            Checksum output = new Checksum();
            transformer.transform(new StreamSource(new File(args[1])), new StreamResult(output));
            System.out.println("XalanLoad bytes=" + output.bytes + " crc=" + Long.toHexString(output.sum.getValue()));
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
