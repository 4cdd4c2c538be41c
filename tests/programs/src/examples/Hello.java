public class Hello {
    public static void main(String[] args) {
        System.out.println("Hello, world!");
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
