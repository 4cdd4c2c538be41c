package programs;

/**
 * Switches with many equally frequent cases, which C2 compiles to jump tables. Cases share targets,
 * directly or through blocks that C2 empties: without probes only the jump's edge identifies them.
 */
final class JumpTables {
    private static final Digest DIGEST = new Digest();
    private static final int[] COUNTS = new int[8];

    public static void main(String[] args) {
        int rounds = args.length > 0 ? Integer.parseInt(args[0]) : 100_000;
        int seed = 1;
        for (int i = 0; i < rounds; i++) {
            seed = seed * 69069 + 1;
            DIGEST.add(emptyArms(seed >>> 20 & 15));
            DIGEST.add(sharedArms(seed >>> 16 & 15));
            DIGEST.add(leavesLoop(seed >>> 12 & 31));
        }
        DIGEST.print(JumpTables.class);
    }

    private static int emptyArms(int key) {
        int result = 0;
        switch (key) {
            case 0: result = 1; break;
            case 1: result = 1; break;
            case 2: result = 3; break;
            case 3: break;
            case 4: break;
            case 5: result = 7; break;
            case 6: result = 8; break;
            case 7: break;
            case 8: result = 3; break;
            case 9: result = 4; break;
            case 10: break;
            case 11: result = 11; break;
            case 12: result = 1; break;
            default: result = -1;
        }
        return result;
    }

    private static int sharedArms(int key) {
        switch (key) {
            case 0: case 3: case 7: COUNTS[0]++; break;
            case 1: case 5: case 9: COUNTS[1]++; break;
            case 2: break;
            case 4: break;
            case 6: COUNTS[2]++; break;
            case 8: break;
            case 10: COUNTS[3]++;
            case 11: COUNTS[4]++; break;
            case 12: COUNTS[5]++; break;
            case 13: COUNTS[6]++; break;
            case 14: COUNTS[7]++; break;
        }
        return COUNTS[1];
    }

    private static int leavesLoop(int key) {
        int sum = 0;
        scan:
        for (int i = key; i < key + 16; i++) {
            switch (i & 31) {
                case 0: break scan;
                case 1: continue scan;
                case 2: sum += i; break;
                case 3: break;
                case 4: sum ^= i; break;
                case 5: continue scan;
                case 6: break;
                case 7: sum -= 3; break;
                case 8: break;
                case 9: sum += 5;
                case 10: sum += 7;
                case 11: break;
                case 12: sum <<= 1; break;
                case 13: break;
                case 14: return sum;
                case 15: continue scan;
                default: sum++;
            }
        }
        return sum;
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
