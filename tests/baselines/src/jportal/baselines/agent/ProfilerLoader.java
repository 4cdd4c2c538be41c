// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines.agent;

import java.io.File;
import java.net.MalformedURLException;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.ArrayList;
import java.util.List;
import jportal.profile.driver.GuardedProfiler;
import jportal.profile.driver.ProfilerError;

/** Loads the classes of a profiler, apart from those of the program. */
final class ProfilerLoader extends URLClassLoader {
    private ProfilerLoader(URL[] places) {
        super("profiler", places, ClassLoader.getPlatformClassLoader());
    }

    /** The profiler that the arguments name. */
    static GuardedProfiler load(Options options) {
        List<URL> places = new ArrayList<>();
        try {
            for (String part : options.classpath().split(File.pathSeparator)) {
                File place = new File(part).getAbsoluteFile();
                if (!place.exists()) {
                    throw new IllegalArgumentException("classpath=" + options.classpath() + ": there is no " + place);
                }
                places.add(place.toURI().toURL());
            }
            ProfilerLoader loader = new ProfilerLoader(places.toArray(new URL[0]));
            return GuardedProfiler.load(options.profiler(), options.factory(), loader);
        } catch (MalformedURLException | ProfilerError error) {
            throw new IllegalArgumentException("profiler=" + options.profiler() + ": " + error.getMessage(), error);
        }
    }
}
