package programs;

/** Many threads, one after the other, as in a server without a pool. Argument: how many. */
final class Waves {
    private static long sum;

    public static void main(String[] args) throws InterruptedException {
        int count = args.length > 0 ? Integer.parseInt(args[0]) : 200;
        for (int i = 0; i < count; i++) {
            Thread thread = new Thread(() -> sum += fibonacci(10), "wave-" + i);
            thread.start();
            thread.join();
        }
        Digest digest = new Digest();
        digest.add(sum);
        digest.print(Waves.class);
    }

    private static int fibonacci(int n) {
        return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
    }
}
