package programs;

/** Ways to end a VM. Arguments: return, exit CODE, hook CODE, throw, halt CODE or spin. */
final class Exit {
    public static void main(String[] args) throws Exception {
        int code = args.length > 1 ? Integer.parseInt(args[1]) : 0;
        System.out.println("before " + work(2000));
        switch (args.length > 0 ? args[0] : "return") {
            case "return" -> { }
            case "exit" -> System.exit(code);
            case "hook" -> {
                Runtime.getRuntime().addShutdownHook(new Thread(() -> System.out.println("hook " + work(500))));
                System.exit(code);
            }
            case "throw" -> throw new IllegalStateException("uncaught on purpose");
            case "halt" -> Runtime.getRuntime().halt(code);
            case "spin" -> spin();
            default -> throw new IllegalArgumentException(args[0]);
        }
        System.out.println("after");
    }

    private static int work(int n) {
        int sum = 0;
        for (int i = 0; i < n; i++) {
            sum += i % 3 == 0 ? i : -1;
        }
        return sum;
    }

    /** Prints a line when it has started, and runs until a signal ends it. */
    private static void spin() throws InterruptedException {
        System.out.println("spinning");
        System.out.flush();
        while (true) {
            work(100);
            Thread.sleep(5);
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
