import com.sun.jdi.Bootstrap;
import com.sun.jdi.ClassType;
import com.sun.jdi.Field;
import com.sun.jdi.ObjectReference;
import com.sun.jdi.ReferenceType;
import com.sun.jdi.ThreadReference;
import com.sun.jdi.VMDisconnectedException;
import com.sun.jdi.VirtualMachine;
import com.sun.jdi.connect.Connector;
import com.sun.jdi.connect.ListeningConnector;
import com.sun.jdi.event.BreakpointEvent;
import com.sun.jdi.event.ClassPrepareEvent;
import com.sun.jdi.event.Event;
import com.sun.jdi.event.EventSet;
import com.sun.jdi.request.BreakpointRequest;
import com.sun.jdi.request.ClassPrepareRequest;
import com.sun.jdi.request.EventRequest;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/**
 * Runs a command that starts {@code programs.Debugged}, with {@code ADDRESS} replaced by the
 * debugger's address. Pops frames, forces returns, throws exceptions in it; prints the counts.
 */
public final class Debugger {
    private static int popped;
    private static int poppedTwo;
    private static int returned;
    private static int thrown;
    private static int spinning;

    public static void main(String[] command) throws Exception {
        ListeningConnector connector = Bootstrap.virtualMachineManager().listeningConnectors().stream()
            .filter(c -> c.transport().name().equals("dt_socket")).findFirst().orElseThrow();
        Map<String, Connector.Argument> arguments = connector.defaultArguments();
        arguments.get("localAddress").setValue("127.0.0.1");
        String address = connector.startListening(arguments);
        List<String> words = Arrays.stream(command).map(w -> w.replace("ADDRESS", address)).toList();
        Process process = new ProcessBuilder(words).inheritIO().start();
        VirtualMachine vm = connector.accept(arguments);
        connector.stopListening(arguments);
        try {
            debug(vm);
        } catch (VMDisconnectedException e) {
            // The program has ended.
        }
        int status = process.waitFor();
        System.out.printf("popped %d, popped two %d, returned %d, thrown %d, spinning %d%n", popped, poppedTwo, returned,
            thrown, spinning);
        System.exit(status);
    }

    private static void debug(VirtualMachine vm) throws Exception {
        ClassPrepareRequest prepared = vm.eventRequestManager().createClassPrepareRequest();
        prepared.addClassFilter("programs.Debugged");
        prepared.setSuspendPolicy(EventRequest.SUSPEND_ALL);
        prepared.enable();
        int stops = 0;
        while (true) {
            EventSet events = vm.eventQueue().remove();
            for (Event event : events) {
                if (event instanceof ClassPrepareEvent ready) {
                    BreakpointRequest request = vm.eventRequestManager().createBreakpointRequest(
                        ready.referenceType().methodsByName("pause").get(0).location());
                    request.setSuspendPolicy(EventRequest.SUSPEND_ALL);
                    request.enable();
                    Thread spins = new Thread(() -> spin(vm, ready.referenceType(), ready.thread()));
                    spins.setDaemon(true);
                    spins.start();
                } else if (event instanceof BreakpointEvent stop) {
                    act(vm, stop, stops++);
                }
            }
            events.resume();
        }
    }

    /** Acts at every third stop, in turn, so that most frames run undisturbed. */
    private static void act(VirtualMachine vm, BreakpointEvent stop, int number) throws Exception {
        ThreadReference thread = stop.thread();
        switch (number % 12) {
            case 0 -> {
                thread.popFrames(thread.frame(0));
                popped++;
            }
            case 3 -> {
                thread.popFrames(thread.frame(1));
                poppedTwo++;
            }
            case 6 -> {
                thread.forceEarlyReturn(vm.mirrorOf(1000));
                returned++;
            }
            case 9 -> {
                ReferenceType type = stop.location().declaringType();
                thread.stop((ObjectReference) type.getValue(type.fieldByName("OUTSIDE")));
                thrown++;
            }
            default -> { }
        }
    }

    /** Pops the frame of {@code spin} and ends its loop (even rounds), or forces a return (odd). */
    private static void spin(VirtualMachine vm, ReferenceType type, ThreadReference thread) {
        try {
            Field field = type.fieldByName("spinning");
            for (int round = 0; round < 4; round++) {
                while (((com.sun.jdi.IntegerValue) type.getValue(field)).value() <= round) {
                    Thread.sleep(5);
                }
                // Long enough for OSR to replace the interpreter's frame.
                Thread.sleep(300);
                thread.suspend();
                // The thread may be in a callee of spin.
                int at = 0;
                while (!thread.frame(at).location().method().name().equals("spin")) {
                    at++;
                }
                if (round % 2 == 0) {
                    thread.popFrames(thread.frame(at));
                } else {
                    if (at > 0) {
                        thread.popFrames(thread.frame(at - 1));
                    }
                    thread.forceEarlyReturn(vm.mirrorOf(5));
                }
                spinning++;
                thread.resume();
                Thread.sleep(50);
                ((ClassType) type).setValue(type.fieldByName("go"), vm.mirrorOf(round % 2 == 0));
            }
        } catch (VMDisconnectedException e) {
            // The program has ended.
        } catch (Exception e) {
            e.printStackTrace();
            System.exit(3);
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
