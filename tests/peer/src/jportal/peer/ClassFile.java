// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.peer;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.Opcodes;

/** A class file: its header, its methods, and access to its constants. */
final class ClassFile {
    private static final String INTRINSIC = "Ljdk/internal/vm/annotation/IntrinsicCandidate;";

    final ClassReader reader;
    final String name;
    final String superName;
    final List<String> interfaces;
    final int access;
    /** The module of the JDK's image it comes from; null if it comes from elsewhere. */
    final String module;
    /** Whether it holds the oracle's probes, which are to be left out. */
    final boolean probed;
    /** By name and descriptor, in the order of the file. */
    final Map<String, Member> methods = new LinkedHashMap<>();
    /** Names and descriptors of the fields. */
    final Set<String> fields = new HashSet<>();
    private final char[] buffer;
    private final List<Integer> bootstraps = new ArrayList<>();

    /**
     * A method.
     *
     * @param code      offset of its {@code Code} attribute in the file, or -1
     * @param intrinsic whether a compiler may replace its calls
     */
    record Member(ClassFile file, String name, String descriptor, int access, int code, boolean intrinsic) {
        boolean is(int flag) {
            return (access & flag) != 0;
        }

        String key() {
            return name + descriptor;
        }
    }

    /** A reference to a method: of an invoke, or of a method handle. */
    record Reference(String owner, String name, String descriptor, boolean isInterface) {
        String key() {
            return name + descriptor;
        }
    }

    /** An {@code invokedynamic} or a dynamic constant. */
    record Dynamic(String name, String descriptor, Reference bootstrap, List<Reference> handles) {}

    ClassFile(byte[] bytes, String module, boolean probed) {
        reader = new ClassReader(bytes);
        buffer = new char[reader.getMaxStringLength()];
        name = reader.getClassName();
        superName = reader.getSuperName();
        interfaces = List.of(reader.getInterfaces());
        access = reader.getAccess();
        this.module = module;
        this.probed = probed;
        int offset = readFields(reader.header + 8 + 2 * interfaces.size());
        int count = u2(offset);
        offset += 2;
        for (; count > 0; count--) {
            offset = readMethod(offset);
        }
        readAttributes(offset);
    }

    boolean is(int flag) {
        return (access & flag) != 0;
    }

    int u1(int offset) {
        return reader.readByte(offset);
    }

    int u2(int offset) {
        return reader.readUnsignedShort(offset);
    }

    String utf8(int offset) {
        return reader.readUTF8(offset, buffer);
    }

    /** The name of the class whose constant's index is at this offset; null for index 0. */
    String classAt(int offset) {
        return u2(offset) == 0 ? null : reader.readClass(offset, buffer);
    }

    /** The field or method whose constant's index is at this offset. */
    Reference referenceAt(int offset) {
        return reference(u2(offset));
    }

    private Reference reference(int index) {
        int item = reader.getItem(index);
        int nameAndType = reader.getItem(u2(item + 2));
        return new Reference(classAt(item), utf8(nameAndType), utf8(nameAndType + 2), u1(item - 1) == 11);
    }

    /** The dynamic call site or constant whose index this is; null if it is another constant. */
    Dynamic dynamic(int index) {
        int item = reader.getItem(index);
        if (u1(item - 1) != 18 && u1(item - 1) != 17) {
            return null;
        }
        int nameAndType = reader.getItem(u2(item + 2));
        int bootstrap = bootstraps.get(u2(item));
        List<Reference> handles = new ArrayList<>();
        for (int i = 0; i < u2(bootstrap + 2); i++) {
            int argument = reader.getItem(u2(bootstrap + 4 + 2 * i));
            if (u1(argument - 1) == 15) {
                handles.add(reference(u2(argument + 1)));
            }
        }
        Reference method = reference(u2(reader.getItem(u2(bootstrap)) + 1));
        return new Dynamic(utf8(nameAndType), utf8(nameAndType + 2), method, handles);
    }

    /** The bootstrap's handle arguments of all dynamic call sites and constants of the class. */
    List<Dynamic> dynamics() {
        List<Dynamic> all = new ArrayList<>();
        for (int i = 1; i < reader.getItemCount(); i++) {
            int item = reader.getItem(i);
            if (item > 0 && (u1(item - 1) == 18 || u1(item - 1) == 17)) {
                all.add(dynamic(i));
            }
        }
        return all;
    }

    /** Whether a method of this name is called or named anywhere in the class. */
    boolean names(String method) {
        for (int i = 1; i < reader.getItemCount(); i++) {
            int item = reader.getItem(i);
            if (item > 0 && u1(item - 1) == 12 && utf8(item).equals(method)) {
                return true;
            }
        }
        return false;
    }

    private int readFields(int start) {
        int offset = start + 2;
        for (int i = u2(start); i > 0; i--) {
            fields.add(utf8(offset + 2) + utf8(offset + 4));
            offset = skipAttributes(offset + 6);
        }
        return offset;
    }

    private int skipAttributes(int start) {
        int offset = start + 2;
        for (int i = u2(start); i > 0; i--) {
            offset += 6 + reader.readInt(offset + 2);
        }
        return offset;
    }

    private int readMethod(int start) {
        int code = -1;
        boolean intrinsic = false;
        int offset = start + 8;
        for (int i = u2(start + 6); i > 0; i--) {
            String attribute = utf8(offset);
            if (attribute.equals("Code")) {
                code = offset;
            } else if (module != null && attribute.equals("RuntimeVisibleAnnotations")) {
                intrinsic = hasIntrinsic(offset + 6);
            }
            offset += 6 + reader.readInt(offset + 2);
        }
        Member member = new Member(this, utf8(start + 2), utf8(start + 4), u2(start), code, intrinsic);
        methods.put(member.key(), member);
        return offset;
    }

    /** Looks at annotations up to the first with values. */
    private boolean hasIntrinsic(int start) {
        int offset = start + 2;
        for (int i = u2(start); i > 0; i--) {
            if (utf8(offset).equals(INTRINSIC)) {
                return true;
            }
            if (u2(offset + 2) != 0) {
                return false;
            }
            offset += 4;
        }
        return false;
    }

    private void readAttributes(int start) {
        int offset = start + 2;
        for (int i = u2(start); i > 0; i--) {
            if (utf8(offset).equals("BootstrapMethods")) {
                int at = offset + 8;
                for (int n = u2(offset + 6); n > 0; n--) {
                    bootstraps.add(at);
                    at += 4 + 2 * u2(at + 2);
                }
            }
            offset += 6 + reader.readInt(offset + 2);
        }
    }

    boolean isInterface() {
        return is(Opcodes.ACC_INTERFACE);
    }
}
