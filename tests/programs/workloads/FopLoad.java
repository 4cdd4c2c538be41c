import java.io.File;
import java.io.OutputStream;
import java.util.Date;
import javax.xml.transform.Result;
import javax.xml.transform.Transformer;
import javax.xml.transform.TransformerFactory;
import javax.xml.transform.sax.SAXResult;
import javax.xml.transform.stream.StreamSource;
import org.apache.fop.apps.FOUserAgent;
import org.apache.fop.apps.Fop;
import org.apache.fop.apps.FopFactory;
import org.apache.xmlgraphics.util.MimeConstants;

/**
 * FOP typesets a document as PDF: page sequences, tables, lists, footnotes, justified text.
 * Arguments: stylesheet that makes XSL-FO, document, number of its rows (20 by default),
 * repetitions (1 by default). Class path: the jars of Debian's fop.
 */
public final class FopLoad {
    private FopLoad() {}

    private static final class Counter extends OutputStream {
        private long bytes;

        @Override
        public void write(int b) {
            bytes++;
        }

        @Override
        public void write(byte[] b, int offset, int length) {
            bytes += length;
        }
    }

    public static void main(String[] args) throws Exception {
        String rows = args.length > 2 ? args[2] : "20";
        int times = args.length > 3 ? Integer.parseInt(args[3]) : 1;
        FopFactory factory = FopFactory.newInstance(new File(".").toURI());
        TransformerFactory transformers = TransformerFactory.newInstance("org.apache.xalan.processor.TransformerFactoryImpl", null);
        for (int i = 0; i < times; i++) {
            FOUserAgent agent = factory.newFOUserAgent();
            agent.setCreationDate(new Date(0));
            Counter output = new Counter();
            Fop fop = factory.newFop(MimeConstants.MIME_PDF, agent, output);
            Transformer transformer = transformers.newTransformer(new StreamSource(new File(args[0])));
            transformer.setParameter("rows", rows);
            Result result = new SAXResult(fop.getDefaultHandler());
            transformer.transform(new StreamSource(new File(args[1])), result);
            System.out.println("FopLoad pages=" + fop.getResults().getPageCount() + " written=" + (output.bytes > 0));
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
