package programs;

/** Switches: dense, sparse, negative, extreme; one case, none; shared and identical arms. */
final class Switches {
    private static final Digest DIGEST = new Digest();
    private static final int[] KEYS = {
        Integer.MIN_VALUE, Integer.MIN_VALUE + 1, -1000, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 63, 64, 100, 1000,
        1 << 20, Integer.MAX_VALUE - 1, Integer.MAX_VALUE
    };

    enum Colour { RED, GREEN, BLUE, BLACK }

    public static void main(String[] args) {
        int rounds = args.length > 0 ? Integer.parseInt(args[0]) : 20;
        String[] words = {"alpha", "beta", "Aa", "BB", "", "gamma", "omega"};
        for (int i = 0; i < rounds; i++) {
            for (int key : KEYS) {
                DIGEST.add(dense(key));
                DIGEST.add(holes(key));
                DIGEST.add(sparse(key));
                DIGEST.add(negative(key));
                DIGEST.add(extremes(key));
                DIGEST.add(single(key));
                DIGEST.add(onlyDefault(key));
                DIGEST.add(fallThrough(key));
                DIGEST.add(shared(key));
                DIGEST.add(identicalArms(key));
                DIGEST.add(defaultFirst(key));
                DIGEST.add(inLoop(key & 15));
                DIGEST.add(expression(key & 7));
            }
            for (String word : words) {
                DIGEST.add(strings(word));
            }
            for (Colour colour : Colour.values()) {
                DIGEST.add(enums(colour));
            }
            for (char c = 'a'; c < 'h'; c++) {
                DIGEST.add(characters(c));
            }
        }
        DIGEST.print(Switches.class);
    }

    private static int dense(int key) {
        switch (key) {
            case 0: return 10;
            case 1: return 11;
            case 2: return 12;
            case 3: return 13;
            case 4: return 14;
            case 5: return 15;
            default: return -1;
        }
    }

    private static int holes(int key) {
        switch (key) {
            case 1: return 1;
            case 3: return 3;
            case 4: return 4;
            case 6: return 6;
            case 9: return 9;
        }
        return 0;
    }

    private static int sparse(int key) {
        switch (key) {
            case -1000: return 1;
            case 0: return 2;
            case 100: return 3;
            case 1000: return 4;
            case 1 << 20: return 5;
            default: return 6;
        }
    }

    private static int negative(int key) {
        switch (key) {
            case -3: return 3;
            case -2: return 2;
            case -1: return 1;
            default: return 0;
        }
    }

    private static int extremes(int key) {
        switch (key) {
            case Integer.MIN_VALUE: return 1;
            case Integer.MAX_VALUE: return 2;
            default: break;
        }
        switch (key) {
            case Integer.MAX_VALUE - 1: return 3;
            case Integer.MAX_VALUE: return 4;
            default: return 5;
        }
    }

    private static int single(int key) {
        switch (key) {
            case 7: return 70;
            default: return 71;
        }
    }

    private static int onlyDefault(int key) {
        switch (key) {
            default: return key / 2;
        }
    }

    private static int fallThrough(int key) {
        int sum = 0;
        switch (key) {
            case 1: sum += 1;
            case 2: sum += 2;
            case 3: sum += 4;
                break;
            case 4: sum += 8;
            default: sum += 16;
            case 5: sum += 32;
        }
        return sum;
    }

    private static int shared(int key) {
        switch (key) {
            case 0: case 2: case 4: case 6: case 8: return 0;
            case 1: case 3: case 5: case 7: case 9: return 1;
            case 63: case 64: case 100: return 2;
            default: return 3;
        }
    }

    /** Every case leads to the same instruction: the compilers may drop the whole switch. */
    private static int identicalArms(int key) {
        int result = 5;
        switch (key) {
            case 0: break;
            case 1: break;
            case 2: break;
            case 3: break;
            default:
        }
        switch (key) {
            case 10: result++; break;
            case 11: result++; break;
            case 12: result++; break;
            default: result++;
        }
        return result;
    }

    private static int defaultFirst(int key) {
        switch (key) {
            default: return 0;
            case 8: return 1;
            case 9: return 2;
            case 10: return 3;
        }
    }

    private static int inLoop(int n) {
        int state = 0;
        int sum = 0;
        while (n >= 0) {
            switch (state) {
                case 0: state = n % 3 + 1; break;
                case 1: state = 2; sum += 3; continue;
                case 2: state = 3; sum ^= n;
                case 3: state = 0; n--; break;
            }
            n--;
        }
        return sum;
    }

    private static int expression(int key) {
        return switch (key) {
            case 0, 1 -> 1;
            case 2 -> {
                int square = key * key;
                yield square + 1;
            }
            case 3 -> dense(key);
            default -> 9;
        };
    }

    /** "Aa" and "BB" have the same hash code. */
    private static int strings(String word) {
        switch (word) {
            case "alpha": return 1;
            case "beta": return 2;
            case "Aa": return 3;
            case "BB": return 4;
            case "": return 5;
            default: return 6;
        }
    }

    private static int enums(Colour colour) {
        switch (colour) {
            case RED: return 1;
            case BLUE: return 2;
            default: return 3;
        }
    }

    private static int characters(char c) {
        switch (c) {
            case 'a': return 1;
            case 'c': return 2;
            case 'd': return 3;
            default: return 4;
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
