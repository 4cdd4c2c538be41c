// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.profile.driver;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Modifier;
import jportal.profile.Completeness;
import jportal.profile.IC;
import jportal.profile.MID;
import jportal.profile.MIDFactory;
import jportal.profile.MethodMID;
import jportal.profile.ProfiledThread;
import jportal.profile.Profiler;
import jportal.profile.RC;

/** A profiler and its factory, whose answers are checked. */
public final class GuardedProfiler {
    private final Profiler profiler;
    private final String name;
    private final MIDFactory factory;

    /** The factory may be null. */
    public GuardedProfiler(Profiler profiler, MIDFactory factory) {
        this.profiler = profiler;
        this.factory = factory == null ? MethodMID::new : factory;
        name = profiler.getClass().getName();
    }

    /**
     * Loads a profiler.
     *
     * @param profiler name of its class
     * @param factory  name of the class of the factory; null for none
     */
    public static GuardedProfiler load(String profiler, String factory, ClassLoader loader) throws ProfilerError {
        MIDFactory made = factory == null ? null : create(factory, MIDFactory.class, loader);
        return new GuardedProfiler(create(profiler, Profiler.class, loader), made);
    }

    private static <T> T create(String name, Class<T> type, ClassLoader loader) throws ProfilerError {
        try {
            Class<?> found = Class.forName(name, true, loader);
            if (!type.isAssignableFrom(found)) {
                throw new ProfilerError("class " + name + " does not implement " + type.getName(), null);
            }
            if (found.isInterface() || Modifier.isAbstract(found.getModifiers())) {
                throw new ProfilerError("class " + name + " is abstract, so that no object can be made", null);
            }
            return type.cast(found.getConstructor().newInstance());
        } catch (ClassNotFoundException error) {
            throw new ProfilerError("there is no class " + name + " on the class path", null);
        } catch (UnsupportedClassVersionError error) {
            throw new ProfilerError("class " + name + " needs a newer Java than this one, " + Runtime.version()
                    + ": compile it with --release " + Runtime.version().feature() + ", or run a newer java", null);
        } catch (NoSuchMethodException | IllegalAccessException error) {
            throw new ProfilerError(
                    "class " + name + " and its constructor without parameters must exist and be public", null);
        } catch (InvocationTargetException error) {
            throw ProfilerError.thrown("the constructor of " + name, error.getCause());
        } catch (ExceptionInInitializerError error) {
            throw ProfilerError.thrown("the initializer of " + name, error.getCause());
        } catch (ReflectiveOperationException | LinkageError error) {
            throw new ProfilerError("class " + name + " cannot be loaded: " + error, null);
        }
    }

    /** Name of the profiler's class. */
    public String name() {
        return name;
    }

    /** Calls {@link Profiler#register}. */
    public int register(ProfiledThread thread, RC root) throws ProfilerError {
        int granularity;
        try {
            granularity = profiler.register(thread, root);
        } catch (Throwable error) {
            throw ProfilerError.thrown(name + ".register", error);
        }
        return checked("register", granularity);
    }

    /** Calls {@link Profiler#report}. */
    public int report(RC root, IC current) throws ProfilerError {
        int granularity;
        try {
            granularity = profiler.report(root, current);
        } catch (Throwable error) {
            throw ProfilerError.thrown(name + ".report", error);
        }
        return checked("report", granularity);
    }

    private int checked(String method, int granularity) throws ProfilerError {
        if (granularity < 1) {
            throw new ProfilerError(name + "." + method + " returned " + granularity
                    + ", which is no number of bytecodes: return 1 to " + Integer.MAX_VALUE, null);
        }
        return granularity;
    }

    /** Calls {@link Profiler#end}. */
    public void end(RC root) throws ProfilerError {
        try {
            profiler.end(root);
        } catch (Throwable error) {
            throw ProfilerError.thrown(name + ".end", error);
        }
    }

    /** Calls {@link Profiler#finish}. */
    public void finish(Completeness completeness) throws ProfilerError {
        try {
            profiler.finish(completeness);
        } catch (Throwable error) {
            throw ProfilerError.thrown(name + ".finish", error);
        }
    }

    /** Calls {@link MIDFactory#getMID}. */
    public MID mid(String className, String loader, String method) throws ProfilerError {
        MID mid;
        try {
            mid = factory.getMID(className, loader, method);
        } catch (Throwable error) {
            throw ProfilerError.thrown(factory.getClass().getName() + ".getMID", error);
        }
        if (mid == null) {
            throw new ProfilerError(factory.getClass().getName() + ".getMID returned null for " + className + "."
                    + method, null);
        }
        return mid;
    }
}
