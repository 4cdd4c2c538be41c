import org.sunflow.SunflowAPI;
import org.sunflow.core.Display;
import org.sunflow.core.parser.SCParser;
import org.sunflow.image.Color;
import org.sunflow.math.Matrix4;
import org.sunflow.system.UI;
import org.sunflow.system.ui.SilentInterface;

/**
 * Sunflow renders a room with spheres of three materials and a waved mesh: scene parser, bounding
 * volumes, intersections, shaders, light sampling, anti-aliasing; by one thread: runs are equal.
 * Arguments: scene, image width (48), spheres (12), repetitions (1). Class path: sunflow.jar.
 */
public final class SunflowLoad {
    private static final String[] MATERIALS = {"clay", "metal", "glass"};

    private SunflowLoad() {}

    /** The number and a checksum of the rendered pixels. */
    private static final class Sum implements Display {
        private long pixels;
        private long light;

        @Override
        public void imageBegin(int width, int height, int bucket) {}

        @Override
        public void imagePrepare(int x, int y, int width, int height, int id) {}

        @Override
        public void imageUpdate(int x, int y, int width, int height, Color[] data, float[] alpha) {
            for (int i = 0; i < width * height; i++) add(x + i % width, y + i / width, data[i]);
        }

        @Override
        public void imageFill(int x, int y, int width, int height, Color color, float alpha) {
            for (int i = 0; i < width * height; i++) add(x + i % width, y + i / width, color);
        }

        @Override
        public void imageEnd() {}

        private synchronized void add(int x, int y, Color color) {
            pixels++;
            light = 31 * light + (x ^ y << 12) + color.copy().toNonLinear().toRGB();
        }
    }

    public static void main(String[] args) {
        int width = args.length > 1 ? Integer.parseInt(args[1]) : 48;
        int spheres = args.length > 2 ? Integer.parseInt(args[2]) : 12;
        int times = args.length > 3 ? Integer.parseInt(args[3]) : 1;
        UI.set(new SilentInterface());
        for (int i = 0; i < times; i++) {
            SunflowAPI api = new SunflowAPI();
            // Debian's Sunflow has the parser, but does not select it by the file's name.
            if (!new SCParser().parse(args[0], api)) throw new IllegalStateException("Sunflow cannot read " + args[0]);
            spheres(api, spheres);
            mesh(api, 4 + spheres / 2);
            api.parameter("threads", 1);
            api.parameter("threads.lowPriority", false);
            api.parameter("resolutionX", width);
            api.parameter("resolutionY", width * 3 / 4);
            api.options(SunflowAPI.DEFAULT_OPTIONS);
            Sum sum = new Sum();
            api.render(SunflowAPI.DEFAULT_OPTIONS, sum);
            System.out.println("SunflowLoad pixels=" + sum.pixels + " light=" + Long.toHexString(sum.light));
        }
    }

    private static void spheres(SunflowAPI api, int number) {
        api.geometry("ball", "sphere");
        for (int i = 0; i < number; i++) {
            float angle = 2.4f * i;
            float away = 0.9f + 3.4f * i / number;
            float size = 0.18f + 0.05f * (i % 5);
            Matrix4 place = Matrix4.translation(away * (float) Math.cos(angle), away * (float) Math.sin(angle), size);
            api.parameter("transform", place.multiply(Matrix4.scale(size)));
            api.parameter("shaders", new String[] {MATERIALS[i % MATERIALS.length]});
            api.instance("ball" + i, "ball");
        }
    }

    /** A cloth of n by n squares. */
    private static void mesh(SunflowAPI api, int n) {
        float[] points = new float[3 * (n + 1) * (n + 1)];
        int[] triangles = new int[6 * n * n];
        for (int y = 0, p = 0; y <= n; y++) {
            for (int x = 0; x <= n; x++) {
                points[p++] = 6f * x / n - 3;
                points[p++] = 4.5f - 0.4f * (float) Math.sin(9.0 * x / n);
                points[p++] = 4f * y / n;
            }
        }
        for (int y = 0, t = 0; y < n; y++) {
            for (int x = 0; x < n; x++) {
                int corner = y * (n + 1) + x;
                for (int k : new int[] {0, 1, n + 1, 1, n + 2, n + 1}) triangles[t++] = corner + k;
            }
        }
        api.parameter("points", "point", "vertex", points);
        api.parameter("triangles", triangles);
        api.geometry("cloth", "triangle_mesh");
        api.parameter("shaders", new String[] {"clay"});
        api.instance("hanging", "cloth");
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
