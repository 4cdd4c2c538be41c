// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.peer;

import static org.objectweb.asm.Opcodes.*;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import jportal.peer.Site.Init;
import jportal.peer.Site.Reach;

/** Works out which instrumented methods each instruction of the program can enter. */
final class Sites {
    /** The JDK's packages and classes that call methods of the program by reflection. */
    private static final List<String> REFLECTIVE = List.of(
            "java/lang/reflect/Method.invoke", "java/lang/reflect/Constructor.newInstance", "java/lang/Class.newInstance",
            "java/lang/reflect/Proxy.newProxyInstance", "java/lang/invoke/MethodHandle.", "java/lang/invoke/MethodHandleProxies");
    /** Those that make objects of given classes, or ask for the constants of an enumeration. */
    private static final List<String> CREATING = List.of(
            "java/util/Enum", "java/lang/Enum.valueOf", "java/lang/Class.getEnumConstants", "java/lang/Class.getAnnotation",
            "java/lang/Class.getDeclaredAnnotation", "java/util/ServiceLoader",
            "java/util/ResourceBundle", "java/sql/DriverManager", "javax/", "org/xml/sax/helpers/");
    /** Classes that run no tasks, close nothing and load no classes. */
    private static final List<String> PASSIVE = List.of(
            "java/lang/Object", "java/lang/String", "java/lang/CharSequence", "java/lang/Iterable", "java/lang/Comparable",
            "java/lang/Integer", "java/lang/Long", "java/lang/Character", "java/lang/Boolean", "java/lang/Math",
            "java/util/Abstract", "java/util/Array", "java/util/BitSet", "java/util/Collection", "java/util/Comparator",
            "java/util/Deque", "java/util/Dictionary", "java/util/Enumeration", "java/util/Hash", "java/util/Identity",
            "java/util/Iterator", "java/util/Linked", "java/util/List", "java/util/Map", "java/util/Navigable", "java/util/Objects",
            "java/util/Optional", "java/util/PriorityQueue", "java/util/Queue", "java/util/Set", "java/util/Sorted",
            "java/util/Spliterator", "java/util/Stack", "java/util/StringJoiner", "java/util/StringTokenizer", "java/util/Tree",
            "java/util/Vector", "java/util/WeakHashMap", "java/util/function/", "java/util/stream/");
    /**
     * Those of them that call no predicate, consumer or supplier that is not an argument of the
     * call.
     */
    private static final List<String> DATA = List.of(
            "java/lang/Object", "java/lang/String", "java/util/AbstractCollection", "java/util/AbstractList",
            "java/util/AbstractMap", "java/util/AbstractSet", "java/util/Array", "java/util/BitSet", "java/util/Collection.",
            "java/util/Deque", "java/util/Hash", "java/util/Identity", "java/util/Linked", "java/util/List", "java/util/Map",
            "java/util/Navigable", "java/util/PriorityQueue", "java/util/Queue", "java/util/Set", "java/util/Sorted",
            "java/util/Stack", "java/util/Tree", "java/util/Vector", "java/util/WeakHashMap");
    /** Methods of collections that compare and compute nothing. */
    private static final Set<String> VIEWS = Set.of(
            "iterator()Ljava/util/Iterator;", "listIterator()Ljava/util/ListIterator;", "size()I", "isEmpty()Z", "clear()V",
            "entrySet()Ljava/util/Set;", "keySet()Ljava/util/Set;", "values()Ljava/util/Collection;",
            "stream()Ljava/util/stream/Stream;", "get(I)Ljava/lang/Object;");
    private static final String FACTORY = "java/lang/invoke/LambdaMetafactory";
    private static final String CONCATENATION = "java/lang/invoke/StringConcatFactory";
    private static final String RECORDS = "java/lang/runtime/ObjectMethods";

    private final Program program;
    final Hierarchy hierarchy;
    final Leaf leaf;
    /** Whether classes may exist that the log does not know: no set of receivers is complete. */
    private final boolean open;
    private final boolean hasLoaders;
    private final Set<String> instrumentedModules = new HashSet<>();
    private final List<ClassFile.Dynamic> dynamics = new ArrayList<>();
    private final Map<String, Targets> virtual = new HashMap<>();

    /** Possible targets of a virtual call. */
    private static final class Targets {
        final Set<Method> direct = new LinkedHashSet<>();
        Reach other = Reach.NONE;
        boolean isClosed = true;

        void widen(Reach reach) {
            isClosed = false;
            other = reach.compareTo(other) > 0 ? reach : other;
        }
    }

    Sites(Program program, boolean isPartial) {
        this.program = program;
        hierarchy = new Hierarchy(program.files);
        boolean unknown = isPartial || !program.left.isEmpty();
        boolean loaders = false;
        for (String type : program.methods.keySet()) {
            ClassFile file = program.files.get(type);
            unknown |= file.names("defineHiddenClass") || file.names("defineAnonymousClass");
            loaders |= hierarchy.isBelow(type, "java/lang/ClassLoader");
            dynamics.addAll(file.dynamics());
            if (file.module != null) {
                instrumentedModules.add(file.module);
            }
        }
        open = unknown;
        hasLoaders = loaders;
        program.methods.keySet().forEach(this::markOverriding);
        leaf = new Leaf(hierarchy, program.methods.keySet(), program.files);
        for (ClassFile.Dynamic dynamic : dynamics) {
            for (ClassFile.Reference handle : dynamic.handles()) {
                targets(handle.owner(), handle.key(), true).forEach(method -> markHandled(dynamic, method));
            }
        }
    }

    /** Marks a method of a handle. Library code calls a lambda through a library interface only. */
    private void markHandled(ClassFile.Dynamic dynamic, Method method) {
        if (!dynamic.bootstrap().owner().equals(FACTORY) || made(dynamic) == null) {
            method.handled = true;
            return;
        }
        for (String above : hierarchy.above(made(dynamic))) {
            ClassFile file = program.files.get(above);
            boolean declares = file != null && isLibrary(file)
                    && file.methods.values().stream().anyMatch(member -> member.name().equals(dynamic.name()));
            if (file == null || declares) {
                method.declaredBy.add(above);
                method.knownToBase |= file == null || file.module == null || file.module.equals("java.base");
            }
        }
    }

    boolean isLoader(Method method) {
        return hasLoaders && hierarchy.isBelow(method.type, "java/lang/ClassLoader");
    }

    private boolean isInstrumented(String type) {
        return program.methods.containsKey(type);
    }

    /** Whether code that knows the type may be library code. */
    private boolean isLibrary(ClassFile file) {
        if (isInstrumented(file.name)) {
            return false;
        }
        if (file.module != null && !instrumentedModules.contains(file.module)) {
            return true;
        }
        return file.methods.values().stream().anyMatch(member -> member.code() >= 0);
    }

    /** Marks methods that library types declare. */
    private void markOverriding(String type) {
        for (String above : hierarchy.above(type)) {
            ClassFile file = program.files.get(above);
            if (file == null) {
                program.methods.get(type).values().forEach(method -> {
                    method.declaredBy.add(above);
                    method.knownToBase = true;
                });
                continue;
            }
            if (!isLibrary(file)) {
                continue;
            }
            for (ClassFile.Member member : file.methods.values()) {
                if (member.is(ACC_STATIC) || member.is(ACC_PRIVATE) || member.name().startsWith("<")) {
                    continue;
                }
                ClassFile.Member selected = hierarchy.select(type, member.key());
                Method method = selected == null ? null : program.method(selected.file().name, member.key());
                if (method != null) {
                    method.declaredBy.add(above);
                    method.knownToBase |= file.module == null || file.module.equals("java.base");
                }
            }
        }
    }

    /** Instrumented methods that a reference may mean, overriding ones included. */
    private Set<Method> targets(String owner, String key, boolean isVirtual) {
        ClassFile.Member member = hierarchy.resolve(owner, key);
        Set<Method> found = new LinkedHashSet<>();
        if (member != null) {
            Method method = program.method(member.file().name, key);
            if (method != null) {
                found.add(method);
            }
            if (isVirtual && !Leaf.isFixed(member) && !key.startsWith("<")) {
                found.addAll(virtual(owner, key).direct);
            }
        }
        return found;
    }

    /** The site at an instruction; null if it has nothing to do with calls. */
    Site at(Code code, int insn) {
        int opcode = code.op[insn];
        switch (opcode) {
            case INVOKESTATIC: case INVOKESPECIAL: case INVOKEVIRTUAL: case INVOKEINTERFACE:
                return invoke(code, insn, opcode);
            case INVOKEDYNAMIC:
                return dynamic(code, insn, code.file.u2(code.at[insn] + 1), true);
            case NEW:
                String made = code.file.classAt(code.at[insn] + 1);
                return implicit(insn, new Init(initializedBy(made), made));
            case GETSTATIC: case PUTSTATIC:
                ClassFile.Reference field = code.file.referenceAt(code.at[insn] + 1);
                return implicit(insn, new Init(initializedBy(field.owner()), hierarchy.holder(field.owner(), field.key())));
            case GETFIELD: case PUTFIELD: case CHECKCAST: case INSTANCEOF: case ANEWARRAY: case MULTIANEWARRAY:
                return implicit(insn, Init.NOTHING);
            case LDC: case 19: case 20:
                int index = opcode == LDC ? code.file.u1(code.at[insn] + 1) : code.file.u2(code.at[insn] + 1);
                return dynamic(code, insn, index, false);
            default:
                return null;
        }
    }

    private Set<String> initializedBy(String type) {
        Set<String> found = new HashSet<>();
        for (String above : hierarchy.above(type)) {
            if (program.method(above, "<clinit>()V") != null) {
                found.add(above);
            }
        }
        return found;
    }

    private Site implicit(int insn, Init init) {
        return new Site(insn, false, Set.of(), false, Reach.NONE, init, hasLoaders);
    }

    private Site dynamic(Code code, int insn, int constant, boolean isInvoke) {
        ClassFile.Dynamic dynamic = code.file.dynamic(constant);
        Reach reach = Reach.NONE;
        if (dynamic != null) {
            reach = switch (dynamic.bootstrap().owner()) {
                case FACTORY -> Reach.NONE;
                case CONCATENATION -> Reach.STRINGS;
                case RECORDS -> Reach.DECLARED;
                default -> Reach.ANY;
            };
        }
        // The class of a lambda initializes its interface.
        boolean isLambda = dynamic != null && dynamic.bootstrap().owner().equals(FACTORY);
        Init init = isLambda ? new Init(initializedBy(made(dynamic)), null) : Init.NOTHING;
        return new Site(insn, isInvoke, Set.of(), false, reach, init, hasLoaders);
    }

    private Site invoke(Code code, int insn, int opcode) {
        ClassFile.Reference reference = code.file.referenceAt(code.at[insn] + 1);
        ClassFile.Member member = hierarchy.resolve(reference.owner(), reference.key());
        Init classes = opcode == INVOKESTATIC
                ? new Init(initializedBy(reference.owner()), member == null ? null : member.file().name)
                : Init.NOTHING;
        boolean isVirtual = opcode == INVOKEVIRTUAL || opcode == INVOKEINTERFACE;
        if (member == null) {
            boolean isPolymorphic = reference.owner().startsWith("java/lang/invoke/");
            Reach reach = isPolymorphic || open || program.files.get(reference.owner()) != null ? Reach.ANY : Reach.DECLARED;
            return new Site(insn, true, Set.of(), false, reach, classes, hasLoaders);
        }
        if (isVirtual && !Leaf.isFixed(member) && !reference.owner().startsWith("[")) {
            Targets targets = virtual(reference.owner(), reference.key());
            boolean must = targets.isClosed && !targets.direct.isEmpty();
            return new Site(insn, true, targets.direct, must, targets.other, classes, hasLoaders);
        }
        Method method = program.method(member.file().name, member.key());
        if (method != null) {
            boolean must = !member.intrinsic();
            return new Site(insn, true, Set.of(method), must, Reach.NONE, classes, hasLoaders);
        }
        return new Site(insn, true, Set.of(), false, reach(member, true), classes, hasLoaders);
    }

    /** What a method without probes may call. */
    private Reach reach(ClassFile.Member member, boolean isExact) {
        if (isExact && leaf.isClosed(member)) {
            return Reach.NONE;
        }
        ClassFile file = member.file();
        if (file.module == null || isInstrumented(file.name)) {
            return member.is(ACC_ABSTRACT) && !open && file.module == null && !isLibrary(file) ? Reach.NONE : Reach.ANY;
        }
        String full = file.name + '.' + member.name();
        if (isExact && REFLECTIVE.stream().anyMatch(full::startsWith)) {
            return Reach.ANY;
        }
        boolean mayCreate = member.is(ACC_STATIC) || !full.startsWith("javax/");
        if (isExact && mayCreate && CREATING.stream().anyMatch(full::startsWith)) {
            return Reach.CREATED;
        }
        if (!file.module.equals("java.base")) {
            return Reach.DECLARED;
        }
        if (member.is(ACC_ABSTRACT) && file.name.startsWith("java/util/function/")) {
            return Reach.COMPOSED;
        }
        boolean isPassive = PASSIVE.stream().anyMatch(file.name::startsWith) && !file.name.contains("concurrent/");
        if (!isPassive) {
            return Reach.OF_BASE;
        }
        if (VIEWS.contains(member.key())) {
            return Reach.OF_VIEWS;
        }
        boolean isData = DATA.stream().anyMatch(full::startsWith) && !member.descriptor().contains("java/util/function/");
        return isData ? Reach.OF_DATA : Reach.OF_VALUES;
    }

    private Targets virtual(String owner, String key) {
        Targets known = virtual.get(owner + '.' + key);
        if (known != null) {
            return known;
        }
        Targets targets = new Targets();
        virtual.put(owner + '.' + key, targets);
        ClassFile file = program.files.get(owner);
        ClassFile.Member member = hierarchy.resolve(owner, key);
        if (file == null || member == null || isLibrary(file)) {
            targets.widen(member == null ? Reach.ANY : reach(member, false));
        }
        if (open) {
            targets.widen(Reach.ANY);
        }
        for (String type : program.methods.keySet()) {
            ClassFile receiver = program.files.get(type);
            if (!receiver.is(ACC_ABSTRACT) && hierarchy.isBelow(type, owner)) {
                add(targets, type, key);
            }
        }
        if (file != null && file.isInterface()) {
            addHandles(targets, owner, key);
        }
        return targets;
    }

    private void add(Targets targets, String receiver, String key) {
        ClassFile.Member selected = hierarchy.select(receiver, key);
        if (selected == null) {
            targets.widen(Reach.ANY);
            return;
        }
        Method method = program.method(selected.file().name, key);
        if (method == null) {
            if (!selected.is(ACC_ABSTRACT)) {
                targets.widen(reach(selected, true));
            }
        } else {
            targets.direct.add(method);
            targets.isClosed &= !selected.intrinsic();
        }
    }

    /** The class of the value that a dynamic call site makes; null if it is no object. */
    private static String made(ClassFile.Dynamic dynamic) {
        String type = dynamic.descriptor().substring(dynamic.descriptor().indexOf(')') + 1);
        return type.startsWith("L") ? type.substring(1, type.length() - 1) : null;
    }

    /** Adds what lambdas and method references execute that implement the interface. */
    private void addHandles(Targets targets, String owner, String key) {
        for (ClassFile.Dynamic dynamic : dynamics) {
            String made = made(dynamic);
            boolean fits = made != null && key.startsWith(dynamic.name() + "(") && hierarchy.isBelow(made, owner);
            if (!fits) {
                continue;
            }
            for (ClassFile.Reference handle : dynamic.handles()) {
                Set<Method> methods = targets(handle.owner(), handle.key(), true);
                targets.direct.addAll(methods);
                ClassFile.Member member = hierarchy.resolve(handle.owner(), handle.key());
                if (member == null) {
                    targets.widen(Reach.ANY);
                } else if (methods.isEmpty() || !isInstrumented(handle.owner())) {
                    targets.widen(reach(member, Leaf.isFixed(member)));
                }
            }
        }
        // The interface's own method may also be called on objects of classes made by proxies.
        if (program.methods.keySet().stream().anyMatch(type -> hierarchy.isBelow(type, "java/lang/reflect/InvocationHandler"))) {
            targets.widen(Reach.DECLARED);
        }
    }
}
