// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
/* The native methods of the test program Natives. */
#include <jni.h>
#include <pthread.h>
#include <stddef.h>

static JavaVM *vm_;

JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM *vm, void *reserved) {
  (void)reserved;
  vm_ = vm;
  return JNI_VERSION_1_8;
}

JNIEXPORT jint JNICALL Java_programs_Natives_plain(JNIEnv *env, jclass type, jint a, jlong b, jfloat c, jdouble d, jobject e) {
  (void)env;
  (void)type;
  return a + (jint)b + (jint)(c * 2) + (jint)(d * 4) + (e != NULL);
}

JNIEXPORT jint JNICALL Java_programs_Natives_instance(JNIEnv *env, jobject self, jint a) {
  jclass type = (*env)->GetObjectClass(env, self);
  jmethodID method = (*env)->GetMethodID(env, type, "virtual", "(I)I");
  return (*env)->CallIntMethod(env, self, method, a);
}

JNIEXPORT jint JNICALL Java_programs_Natives_locked(JNIEnv *env, jclass type, jint a) {
  (void)env;
  (void)type;
  return a ^ 5;
}

JNIEXPORT jint JNICALL Java_programs_Natives_upcalls(JNIEnv *env, jclass type, jobject operator_, jint count) {
  (void)type;
  jclass interface = (*env)->FindClass(env, "java/util/function/IntUnaryOperator");
  jmethodID apply = (*env)->GetMethodID(env, interface, "applyAsInt", "(I)I");
  jint sum = 0;
  for (jint i = 0; i < count; i++) {
    sum += (*env)->CallIntMethod(env, operator_, apply, i);
    if ((*env)->ExceptionCheck(env)) return 0;
  }
  return sum;
}

JNIEXPORT jint JNICALL Java_programs_Natives_bounceNative(JNIEnv *env, jclass type, jint depth) {
  jmethodID bounce = (*env)->GetStaticMethodID(env, type, "bounce", "(I)I");
  return (*env)->CallStaticIntMethod(env, type, bounce, depth);
}

JNIEXPORT void JNICALL Java_programs_Natives_fail(JNIEnv *env, jclass type, jstring message) {
  (void)type;
  const char *text = (*env)->GetStringUTFChars(env, message, NULL);
  (*env)->ThrowNew(env, (*env)->FindClass(env, "java/lang/IllegalStateException"), text);
  (*env)->ReleaseStringUTFChars(env, message, text);
}

static void run(JNIEnv *env, jobject runnable) {
  jclass interface = (*env)->FindClass(env, "java/lang/Runnable");
  (*env)->CallVoidMethod(env, runnable, (*env)->GetMethodID(env, interface, "run", "()V"));
}

JNIEXPORT jboolean JNICALL Java_programs_Natives_swallow(JNIEnv *env, jclass type, jobject runnable) {
  (void)type;
  run(env, runnable);
  jboolean threw = (*env)->ExceptionCheck(env);
  (*env)->ExceptionClear(env);
  return threw;
}

JNIEXPORT jint JNICALL Java_programs_Natives_mixed(JNIEnv *env, jclass type, jstring text) {
  jmethodID constructor = (*env)->GetMethodID(env, type, "<init>", "(I)V");
  jobject object = (*env)->NewObject(env, type, constructor, 30);
  jint result = (*env)->GetIntField(env, object, (*env)->GetFieldID(env, type, "base", "I"));
  result += (*env)->CallNonvirtualIntMethod(env, object, type, (*env)->GetMethodID(env, type, "virtual", "(I)I"), 4);
  jclass integer = (*env)->FindClass(env, "java/lang/Integer");
  jmethodID parse = (*env)->GetStaticMethodID(env, integer, "parseInt", "(Ljava/lang/String;)I");
  result += (*env)->CallStaticIntMethod(env, integer, parse, text);
  if ((*env)->ExceptionCheck(env)) { /* the test passes a text that is no number */
    (*env)->ExceptionClear(env);
    result += 1000;
  }
  jmethodID length = (*env)->GetMethodID(env, (*env)->GetObjectClass(env, text), "length", "()I");
  return result + (*env)->CallIntMethod(env, text, length);
}

typedef struct {
  jobject runnable;
  const char *name;
} Work;

static void *attached(void *argument) {
  Work *work = argument;
  JNIEnv *env;
  JavaVMAttachArgs args = {JNI_VERSION_1_8, (char *)work->name, NULL};
  if ((*vm_)->AttachCurrentThread(vm_, (void **)&env, &args) != JNI_OK) return NULL;
  run(env, work->runnable);
  (*vm_)->DetachCurrentThread(vm_);
  return NULL;
}

JNIEXPORT void JNICALL Java_programs_Natives_onNativeThread(JNIEnv *env, jclass type, jobject runnable, jstring name) {
  (void)type;
  Work work = {(*env)->NewGlobalRef(env, runnable), (*env)->GetStringUTFChars(env, name, NULL)};
  pthread_t thread;
  if (pthread_create(&thread, NULL, attached, &work) == 0) pthread_join(thread, NULL);
  (*env)->ReleaseStringUTFChars(env, name, work.name);
  (*env)->DeleteGlobalRef(env, work.runnable);
}
