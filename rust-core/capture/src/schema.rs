// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Every metadata record, defined once.
//!
//! Bodies may grow at their end in later versions: a decoder ignores bytes after the last
//! field it knows. Names follow HotSpot's. Addresses are those of the traced process;
//! `method` and `klass` fields hold `Method*` and `InstanceKlass*` and name the object that
//! lived there when the record was committed.

use crate::codec::{Appended, Bytes, CodecError, Source, Str, Wire};

/// Field of a group or record, as the C++ generator needs it.
#[derive(Debug, Clone, Copy)]
pub struct FieldSchema {
    /// Name in both languages.
    pub name: &'static str,
    /// Rust type, one of those in [`crate::codec`] or `Vec<Group>`.
    pub ty: &'static str,
    /// The doc comment, one line per item.
    pub doc: &'static [&'static str],
}

/// A group (item of a list) or a record head with its lists.
#[derive(Debug, Clone, Copy)]
pub struct StructSchema {
    /// Rust name; the C++ one is `JPortal` + name.
    pub name: &'static str,
    /// Record kind; `None` for a group.
    pub kind: Option<u16>,
    /// The doc comment, one line per item.
    pub doc: &'static [&'static str],
    /// In encoding order; lists come last.
    pub fields: &'static [FieldSchema],
}

macro_rules! body {
    ($(#[doc = $doc:literal])* $name:ident { $($(#[doc = $fdoc:literal])* $f:ident : $t:ty),* $(,)? }) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        pub struct $name { $($(#[doc = $fdoc])* pub $f: $t),* }
        impl Wire for $name {
            fn decode(from: &mut Source<'_>) -> Result<Self, CodecError> {
                Ok(Self { $($f: Wire::decode(from)?),* })
            }
            fn encode(&self, to: &mut Vec<u8>) {
                $(self.$f.encode(to);)*
            }
        }
    };
}

macro_rules! schema {
    (
        groups { $($(#[doc = $gdoc:literal])* $g:ident { $($gb:tt)* })* }
        records { $($(#[doc = $rdoc:literal])* $r:ident = $kind:literal { $($rb:tt)* })* }
    ) => {
        $(body! { $(#[doc = $gdoc])* $g { $($gb)* } })*
        $(body! { $(#[doc = $rdoc])* $r { $($rb)* } })*

        /// A decoded metadata record.
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Record {
            $($(#[doc = $rdoc])* $r($r),)*
            /// A kind this version does not know; kept so that it can be counted.
            Unknown {
                /// The kind as read.
                kind: u16,
            },
        }
        impl Record {
            /// Decodes the body of a record of `kind`.
            ///
            /// # Errors
            /// When the body is shorter than its fields.
            pub fn decode(kind: u16, body: &[u8]) -> Result<Self, CodecError> {
                let mut from = Source::new(body);
                Ok(match kind {
                    $($kind => Self::$r(Wire::decode(&mut from)?),)*
                    kind => Self::Unknown { kind },
                })
            }
            /// The record's kind.
            pub fn kind(&self) -> u16 {
                match self {
                    $(Self::$r(_) => $kind,)*
                    Self::Unknown { kind } => *kind,
                }
            }
            /// Appends the body.
            pub fn encode(&self, to: &mut Vec<u8>) {
                match self {
                    $(Self::$r(b) => b.encode(to),)*
                    Self::Unknown { .. } => {}
                }
            }
        }
        /// Groups first, then records, in declaration order.
        pub const SCHEMA: &[StructSchema] = &[
            $(describe!(None; $(#[doc = $gdoc])* $g { $($gb)* }),)*
            $(describe!(Some($kind); $(#[doc = $rdoc])* $r { $($rb)* }),)*
        ];
    };
}
macro_rules! describe {
    ($kind:expr; $(#[doc = $doc:literal])* $name:ident { $($(#[doc = $fdoc:literal])* $f:ident : $t:ty),* $(,)? }) => {
        StructSchema {
            name: stringify!($name),
            kind: $kind,
            doc: &[$($doc),*],
            fields: &[$(FieldSchema { name: stringify!($f), ty: stringify!($t), doc: &[$($fdoc),*] }),*],
        }
    };
}

/// One named value, as the C++ generator needs it.
#[derive(Debug, Clone, Copy)]
pub struct ConstantSchema {
    /// Module it lives in, empty for this one.
    pub module: &'static str,
    /// Name in both languages.
    pub name: &'static str,
    /// Rust type.
    pub ty: &'static str,
    /// Value; those of unsigned types fit too.
    pub value: i64,
    /// The doc comment, one line per item.
    pub doc: &'static [&'static str],
}

/// Defines the constants and the modules of constants, and lists them all in [`CONSTANTS`].
macro_rules! constants {
    (
        values { $($(#[doc = $doc:literal])* $c:ident: $t:ident = $v:expr;)* }
        modules { $($(#[doc = $mdoc:literal])* $m:ident {
            $($(#[doc = $mcdoc:literal])* $mc:ident: $mt:ident = $mv:expr;)*
        })* }
    ) => {
        $($(#[doc = $doc])* pub const $c: $t = $v;)*
        $($(#[doc = $mdoc])* pub mod $m {
            $($(#[doc = $mcdoc])* pub const $mc: $mt = $mv;)*
        })*
        /// Every constant of this file, in declaration order.
        pub const CONSTANTS: &[ConstantSchema] = &[
            $(ConstantSchema {
                module: "", name: stringify!($c), ty: stringify!($t), value: $c as i64, doc: &[$($doc),*],
            },)*
            $($(ConstantSchema {
                module: stringify!($m), name: stringify!($mc), ty: stringify!($mt), value: $m::$mc as i64,
                doc: &[$($mcdoc),*],
            },)*)*
        ];
    };
}

constants! {
    values {
        /// `parent` of a [`Scope`] that is the outermost frame, `scope` of a [`PcDescriptor`]
        /// without one.
        NO_SCOPE: u32 = u32::MAX;
        /// `parent` of an [`InlineContext`] that is the outermost frame, `context` of a
        /// [`PathMarker`] that names no block but an ambiguous stretch.
        NO_CONTEXT: u32 = u32::MAX;
        /// `context` of a [`PathMarker`] that names no block but the position of the next
        /// safepoint poll's state. If that poll deoptimises, the markers in between did not take
        /// effect.
        POLL_STATE: u32 = u32::MAX - 1;
        /// HotSpot's `SynchronizationEntryBCI`: the position before the first bytecode.
        SYNCHRONIZATION_ENTRY_BCI: i32 = -1;
        /// `osr_bci` of an nmethod that is entered at the method's start (`InvocationEntryBci`).
        INVOCATION_ENTRY_BCI: i32 = -1;
    }
    modules {
        /// Bits of [`PcDescriptor::flags`].
        pc_flags {
            /// `PcDesc::should_reexecute`.
            REEXECUTE: u8 = 1;
            /// `PcDesc::rethrow_exception`.
            RETHROW_EXCEPTION: u8 = 2;
            /// `PcDesc::return_oop`.
            RETURN_OOP: u8 = 4;
            /// `PcDesc::is_method_handle_invoke`.
            METHOD_HANDLE_INVOKE: u8 = 8;
            /// The instruction is no safepoint, and the scope is only roughly the position
            /// (`DebugInformationRecorder::add_non_safepoint`, made with
            /// `-XX:+DebugNonSafepoints`).
            NON_SAFEPOINT: u8 = 16;
        }
        /// Bits of [`ClassDefined::flags`].
        class_flags {
            /// A hidden class (`InstanceKlass::is_hidden`).
            HIDDEN: u32 = 1;
            /// Loaded from the CDS archive (`Klass::is_shared`).
            SHARED: u32 = 2;
        }
        /// Bits of [`ThreadStarted::flags`].
        thread_flags {
            /// A Java thread (`Thread::is_Java_thread`) that can run bytecode.
            JAVA: u32 = 1;
            /// A compiler thread.
            COMPILER: u32 = 2;
            /// The thread that created the VM.
            MAIN: u32 = 4;
        }
        /// Values of [`InterpreterTable::table`].
        tables {
            /// `TemplateInterpreter::_normal_table`: index = bytecode.
            NORMAL: u8 = 0;
            /// `Interpreter::_wentry_point`: templates of `wide` bytecodes; state is meaningless
            /// (0).
            WIDE: u8 = 1;
            /// `TemplateInterpreter::_safept_table`: index = bytecode.
            SAFEPOINT: u8 = 2;
            /// `_return_entry[length]`: `index` of the table = length, entries by TosState.
            RETURN: u8 = 3;
            /// `_deopt_entry[length]`: as above.
            DEOPT: u8 = 4;
            /// `_invoke_return_entry`: entries by TosState.
            INVOKE_RETURN: u8 = 5;
            /// `_invokeinterface_return_entry`: entries by TosState.
            INVOKEINTERFACE_RETURN: u8 = 6;
            /// `_invokedynamic_return_entry`: entries by TosState.
            INVOKEDYNAMIC_RETURN: u8 = 7;
            /// `_entry_table`: entries by `AbstractInterpreter::MethodKind`.
            METHOD_ENTRY: u8 = 8;
            /// `_native_abi_to_tosca`: entries by result handler index.
            NATIVE_RESULT: u8 = 9;
            /// `_safept_entry`: entries by TosState.
            SAFEPOINT_ENTRY: u8 = 10;
        }
        /// Values of [`BlobDefined::kind`].
        blob_kinds {
            /// `BufferBlob` and anything not named below.
            BUFFER: u8 = 0;
            /// `AdapterBlob`: i2c and c2i; `entries` name i2c, c2i, c2i_unverified,
            /// c2i_no_clinit_check.
            ADAPTER: u8 = 1;
            /// `RuntimeStub` (both compilers' slow paths included).
            RUNTIME_STUB: u8 = 2;
            /// `DeoptimizationBlob`.
            DEOPTIMIZATION: u8 = 3;
            /// `UncommonTrapBlob`.
            UNCOMMON_TRAP: u8 = 4;
            /// `ExceptionBlob`.
            EXCEPTION: u8 = 5;
            /// `SafepointBlob`.
            SAFEPOINT: u8 = 6;
            /// `MethodHandlesAdapterBlob`.
            METHOD_HANDLES_ADAPTER: u8 = 7;
            /// One vtable or itable stub (`VtableStub`).
            VTABLE_STUB: u8 = 8;
            /// One stub of `StubRoutines` or another `StubCodeDesc`, inside a `BufferBlob`.
            STUB_ROUTINE: u8 = 9;
            /// One inline-cache transition stub (`ICStub`).
            IC_STUB: u8 = 10;
            /// A block of method entry stubs.
            METHOD_STUBS: u8 = 11;
            /// The template interpreter as a whole.
            INTERPRETER: u8 = 12;
        }
        /// Values of [`CodePatched::reason`].
        patch_reasons {
            /// Anything not named below.
            OTHER: u8 = 0;
            /// `NativeCall`: destination of a direct call.
            CALL: u8 = 1;
            /// `NativeJump`/`NativeGeneralJump`: destination of a jump.
            JUMP: u8 = 2;
            /// `NativeJump::patch_verified_entry`: the nmethod became not entrant.
            VERIFIED_ENTRY: u8 = 3;
            /// `NativeMovConstReg`: inline-cache data, never a branch target.
            MOV_CONST: u8 = 4;
            /// C1's `Runtime1::patch_code`.
            C1_PATCH: u8 = 5;
        }
        /// Values of [`NMethodStateChanged::state`], after `nmethod`'s own.
        nmethod_states {
            /// `not_entrant`.
            NOT_ENTRANT: u8 = 1;
            /// `zombie`.
            ZOMBIE: u8 = 2;
            /// `unloaded`.
            UNLOADED: u8 = 3;
        }
        /// Values of [`NMethodMarkers::precision`] (`-XX:JPortalPrecision`).
        path_precisions {
            /// The compiler optimised as usual; markers say that a folded path is ambiguous.
            DEFAULT: u8 = 0;
            /// The compiler refused the folds that lose a path.
            EXACT: u8 = 1;
        }
        /// Values of [`MarkedEdge::outcome`]. *Branch* is the instruction at [`MarkedEdge::from`].
        edge_outcomes {
            /// The conditional branch was taken.
            TAKEN: u8 = 0;
            /// Control continued at the next instruction; this one may be of any kind.
            NOT_TAKEN: u8 = 1;
            /// The indirect jump through a jump table led to `to`.
            JUMP_TABLE: u8 = 2;
            /// The call whose *return address* is `from` returned there.
            CALL_RETURN: u8 = 3;
            /// The call whose *return address* is `from` ended with an exception, and the handler
            /// at `to` runs.
            EXCEPTION: u8 = 4;
            /// The instruction faulted (implicit exception) and control continued at `to`.
            FAULT: u8 = 5;
        }
        /// Why a path is not known; [`PathMarker::bci`] of a marker without context.
        ambiguities {
            /// Two arms became a conditional move, minimum, maximum or the like (C2).
            CONDITIONAL_MOVE: u16 = 1;
            /// Two arms without instructions were removed together with their test (C2).
            EMPTY_DIAMOND: u16 = 2;
            /// Two comparisons became one unsigned comparison (C2).
            FOLDED_COMPARES: u16 = 3;
            /// Two comparisons of the same values became one (C2).
            TRICHOTOMY: u16 = 4;
            /// Two comparisons that clip a number moved after its conversion (C2).
            CLIPPING: u16 = 5;
            /// A loop without effect was removed; its last iteration follows (C2).
            EMPTY_LOOP: u16 = 6;
            /// A loop became a call that fills an array (C2).
            ARRAY_FILL: u16 = 7;
            /// Edges with different markers lead from one jump table or call to one address (C2).
            SHARED_TARGET: u16 = 8;
            /// A conditional expression without a branch (C1).
            CONDITIONAL_EXPRESSION: u16 = 9;
            /// More markers at one place, or in an nmethod, than are kept.
            TOO_MANY: u16 = 10;
            /// A machine instruction that the exporter of the markers does not know.
            UNKNOWN_INSTRUCTION: u16 = 11;
            /// A concatenation of strings was rewritten together with tests inside it (C2).
            STRING_CONCATENATION: u16 = 12;
            /// A bytecode of the block throws, without a call, an exception that exists already
            /// (C2).
            PREPARED_EXCEPTION: u16 = 13;
        }
        /// Values of [`NMethodInstalled::compiler`].
        compilers {
            /// No compiler: a native wrapper.
            NATIVE_WRAPPER: u8 = 0;
            /// C1.
            C1: u8 = 1;
            /// C2.
            C2: u8 = 2;
            /// A compiler that uses JVMCI, such as Graal. It writes no path markers. A value that a
            /// reader does not know means the same: a compiler that only debug info describes.
            JVMCI: u8 = 3;
        }
    }
}

schema! {
    groups {
        /// Row of a method's exception table (JVMS 4.7.3), in table order.
        ExceptionEntry {
            /// First covered bci.
            start_bci: u16,
            /// First bci after the range.
            end_bci: u16,
            /// Handler.
            handler_bci: u16,
            /// Class caught, empty for any.
            catch_type: Str,
        }
        /// Row of a line number table.
        LineEntry {
            /// First bci of the line.
            bci: u16,
            /// Source line.
            line: u16,
        }
        /// Symbolic target of the invoke bytecode at `bci`.
        InvokeTarget {
            /// Of the invoke bytecode.
            bci: u16,
            /// Class named in the constant pool; empty for `invokedynamic`.
            class_name: Str,
            /// Method name.
            name: Str,
            /// Method descriptor.
            signature: Str,
        }
        /// Entry of a method's own constant pool that a field access, `new`, `anewarray`,
        /// `multianewarray`, `checkcast`, `instanceof` or `ldc` refers to.
        PoolConstant {
            /// Its index, as it is in the operands of the bytecodes.
            index: u16,
            /// Its tag (JVMS table 4.4-A).
            tag: u8,
            /// The class itself (`java/lang/Object`, `[I`), or that of a field; empty for other
            /// constants.
            class_name: Str,
            /// Name of a field or dynamic constant.
            name: Str,
            /// Descriptor of a field or dynamic constant.
            signature: Str,
        }
        /// Entry of a class's constant pool that a bytecode may refer to. The other fields are the
        /// indices of its texts, 0 for none.
        PoolReference {
            /// Its index.
            index: u16,
            /// As in `PoolConstant`; that of an invoke is `Methodref`, `InterfaceMethodref` or
            /// `InvokeDynamic`.
            tag: u8,
            /// The class itself, or that of a field or method.
            class_name: u16,
            /// Name of a field, method, or dynamic constant or call.
            name: u16,
            /// Descriptor of the same.
            signature: u16,
        }
        /// A text in a class's constant pool.
        PoolText {
            /// Its index.
            index: u16,
            /// The text.
            text: Str,
        }
        /// A class.
        ClassPointer {
            /// `InstanceKlass*`.
            klass: u64,
        }
        /// A named address.
        NamedAddress {
            /// HotSpot's name for it.
            name: Str,
            /// Where.
            address: u64,
        }
        /// One code address.
        CodeAddress {
            /// Where; 0 for none.
            address: u64,
        }
        /// One frame of a scope chain (`ScopeDesc`), shared by the PcDescs that refer to it.
        Scope {
            /// Index of the caller's scope in the same list, `NO_SCOPE` for the outermost.
            parent: u32,
            /// The frame's method.
            method: u64,
            /// Position in it; `SYNCHRONIZATION_ENTRY_BCI` before the first bytecode.
            bci: i32,
        }
        /// One `PcDesc`, by ascending `pc_offset`.
        PcDescriptor {
            /// Offset of the *return address* or safepoint from `code_begin`.
            pc_offset: u32,
            /// Innermost scope, index into `scopes`.
            scope: u32,
            /// `pc_flags`.
            flags: u8,
        }
        /// Row of an nmethod's `ExceptionHandlerTable`, flattened.
        HandlerEntry {
            /// Return-address offset of the call that may throw.
            pc_offset: u32,
            /// Bci of the handler.
            handler_bci: i32,
            /// Inlining depth of the handler's frame.
            scope_depth: u32,
            /// Offset of the handler's code.
            handler_offset: u32,
        }
        /// Row of an nmethod's `ImplicitExceptionTable`.
        ImplicitEntry {
            /// Offset of the faulting instruction.
            pc_offset: u32,
            /// Where execution continues; 0 means deoptimise.
            continuation: u32,
        }
        /// One frame of an inline chain: `method`, inlined at `call_bci` of the frame `parent`.
        InlineContext {
            /// Index of the caller in the same list, smaller than this one's; `NO_CONTEXT` for the
            /// outermost frame.
            parent: u32,
            /// Bci of the call in the caller; meaningless for the outermost frame.
            call_bci: u16,
            /// The frame's method.
            method: u64,
        }
        /// "The bytecode block at `bci` begins", or "the path is not known from here to the next
        /// marker".
        PathMarker {
            /// Index into `contexts`; `NO_CONTEXT` for an ambiguous stretch, `POLL_STATE`.
            context: u32,
            /// First bci of the block; one of `ambiguities` without a context.
            bci: u16,
        }
        /// Markers passed, in order, whenever control reaches the instruction at `offset`.
        MarkedOffset {
            /// From `code_begin`.
            offset: u32,
            /// First of them, index into `markers`.
            first: u32,
            /// How many.
            count: u32,
        }
        /// Markers passed, in order, when control takes an edge: after those of the offset at
        /// `from` and before those of the offset it leads to.
        MarkedEdge {
            /// Offset of the instruction that decides, or of a call's return address: see
            /// `edge_outcomes`.
            from: u32,
            /// Offset of the instruction that runs next.
            to: u32,
            /// `edge_outcomes`.
            outcome: u8,
            /// First of them, index into `markers`.
            first: u32,
            /// How many; 0 where only another outcome of the same instruction has markers.
            count: u32,
        }
    }
    records {
        /// A thread exists: it may execute from now on.
        ThreadStarted = 1 {
            /// OS thread id.
            tid: u32,
            /// `thread_flags`.
            flags: u32,
            /// `java.lang.Thread.getId()`, 0 when not a Java thread or not known yet.
            java_tid: u64,
            /// Name.
            name: Str,
        }
        /// A thread ends; name and id as they were at the end.
        ThreadExited = 2 {
            /// OS thread id.
            tid: u32,
            /// `java.lang.Thread.getId()`.
            java_tid: u64,
            /// Name.
            name: Str,
        }
        /// A thread got another name.
        ThreadRenamed = 3 {
            /// OS thread id.
            tid: u32,
            /// Name.
            name: Str,
        }
        /// A class was linked (CDS, boot, application and hidden ones alike) or redefined.
        ClassDefined = 8 {
            /// `InstanceKlass*`.
            klass: u64,
            /// Super class, 0 for `java.lang.Object`.
            super_klass: u64,
            /// `ClassLoaderData` identity of the loader; 0 = boot.
            loader: u64,
            /// JVM access flags.
            access_flags: u32,
            /// `class_flags`.
            flags: u32,
            /// Internal name (`java/lang/Object`).
            name: Str,
            /// Loader's class and name, empty for boot.
            loader_name: Str,
            /// `SourceFile`, may be empty.
            source_file: Str,
        }
        /// A class was unloaded, and its methods with it. Older captures have a `MethodFreed` for
        /// each of them as well.
        ClassUnloaded = 9 {
            /// `InstanceKlass*`.
            klass: u64,
        }
        /// A method version can run from now on (`Method::link_method`). Without `constants`, it
        /// uses the constant pool of its class, the last one that `ClassConstants` describes, and
        /// has no `invokes` either. Before version 2.3, methods have `invokes` and no `constants`.
        MethodDefined = 10 {
            /// `Method*`.
            method: u64,
            /// Holder.
            klass: u64,
            /// JVM access flags.
            access_flags: u32,
            /// `AbstractInterpreter::MethodKind`.
            entry_kind: u8,
            /// `vmIntrinsicID`.
            intrinsic: u16,
            /// `max_stack`.
            max_stack: u16,
            /// `max_locals`.
            max_locals: u16,
            /// `Method::method_idnum`.
            idnum: u16,
            /// Name.
            name: Str,
            /// Descriptor.
            signature: Str,
            /// Original bytecodes: quickening and constant-pool-cache indices reversed.
            code: Bytes,
            /// Exception table.
            exceptions: Vec<ExceptionEntry>,
            /// Line number table.
            lines: Vec<LineEntry>,
            /// Targets of the invoke bytecodes.
            invokes: Vec<InvokeTarget>,
            /// What the other bytecodes refer to; each index once.
            constants: Option<Vec<PoolConstant>>,
        }
        /// A method got its own interpreter entry: the jump at `address` names it. The five
        /// bytes at `address` are `jmp rel32` to `target` from now on; no `CodePatched` repeats
        /// them. They lie in a blob of kind `METHOD_STUBS`.
        MethodStub = 11 {
            /// `Method*`.
            method: u64,
            /// Address of the stub.
            address: u64,
            /// Where the stub jumps.
            target: u64,
        }
        /// A `Method*` was freed while its class stays; the address may be used again.
        MethodFreed = 12 {
            /// `Method*`.
            method: u64,
        }
        /// A class was loaded: it is in the class hierarchy, and not yet linked
        /// (`SystemDictionary::add_to_hierarchy`). Committed before its `ClassDefined`, if one
        /// follows. The classes that were there when the recording began have a `tid` of 0.
        ClassLoaded = 13 {
            /// `InstanceKlass*`.
            klass: u64,
            /// Super class, 0 for `java.lang.Object`; `java.lang.Object` for interfaces.
            super_klass: u64,
            /// As in `ClassDefined`.
            loader: u64,
            /// JVM access flags.
            access_flags: u32,
            /// `class_flags`.
            flags: u32,
            /// OS thread id of the thread that loaded it; 0 if not known.
            tid: u32,
            /// Internal name (`java/lang/Object`).
            name: Str,
            /// Loader's class and name, empty for boot.
            loader_name: Str,
            /// The interfaces that the class names, in its order.
            interfaces: Vec<ClassPointer>,
        }
        /// The constant pool of a class, as far as bytecodes may refer to it. Committed after the
        /// `ClassDefined`, and before the methods that use it.
        ClassConstants = 14 {
            /// `InstanceKlass*`.
            klass: u64,
            /// The entries, by index.
            references: Vec<PoolReference>,
            /// The texts that the entries name, by index.
            texts: Vec<PoolText>,
        }
        /// One `InterpreterCodelet`.
        InterpreterCodelet = 16 {
            /// First byte.
            start: u64,
            /// `Bytecodes::Code` of the template, -1 for none.
            bytecode: i32,
            /// HotSpot's description.
            description: Str,
            /// Machine code.
            code: Bytes,
        }
        /// One table of interpreter entry points.
        InterpreterTable = 17 {
            /// `tables`.
            table: u8,
            /// TosState, or length for return and deopt entries.
            index: u8,
            /// By bytecode, TosState or method kind.
            entries: Vec<CodeAddress>,
        }
        /// Single entry points of the interpreter (`rethrow_exception_entry`, ...).
        InterpreterEntries = 18 {
            /// Name and address.
            entries: Vec<NamedAddress>,
        }
        /// Names of the `Bytecodes::Code` values of this VM, internal ones included.
        BytecodeNames = 19 {
            /// Name; the address is java_code << 16 | length << 8 | code.
            names: Vec<NamedAddress>,
        }
        /// A code blob that is not an nmethod.
        BlobDefined = 24 {
            /// First byte of code.
            start: u64,
            /// `blob_kinds`.
            kind: u8,
            /// Name.
            name: Str,
            /// Machine code after relocation.
            code: Bytes,
            /// Entry points.
            entries: Vec<NamedAddress>,
        }
        /// Compiled code was installed (or a native wrapper); committed before it can run.
        NMethodInstalled = 25 {
            /// `code_begin()`: base of every offset below.
            start: u64,
            /// Outermost method.
            method: u64,
            /// `nmethod*`, names it in `NMethodStateChanged`.
            nmethod: u64,
            /// Compile id as `-XX:+PrintCompilation` shows it.
            compile_id: u32,
            /// `compilers`.
            compiler: u8,
            /// `CompLevel`.
            level: u8,
            /// Bci of the OSR entry or `INVOCATION_ENTRY_BCI`.
            osr_bci: i32,
            /// `frame_size()` in words.
            frame_words: u32,
            /// Unverified entry point.
            entry: u32,
            /// Verified entry point.
            verified_entry: u32,
            /// OSR entry point (0 when not OSR).
            osr_entry: u32,
            /// Start of the stub section (also the end of the instructions).
            stub: u32,
            /// Exception handler; `u32::MAX` for none, as in the next two.
            exception_handler: u32,
            /// Deopt handler.
            deopt_handler: u32,
            /// Deopt handler of method-handle call sites.
            deopt_mh_handler: u32,
            /// Unwind handler (C1); `u32::MAX` for none.
            unwind_handler: u32,
            /// Instructions and stubs after relocation, from `start` on.
            code: Bytes,
            /// Scopes; a parent precedes its children or follows: resolve by index.
            scopes: Vec<Scope>,
            /// By ascending `pc_offset`.
            pc_descs: Vec<PcDescriptor>,
            /// Exception handlers.
            handlers: Vec<HandlerEntry>,
            /// Implicit exceptions.
            implicit: Vec<ImplicitEntry>,
        }
        /// Bytes of code changed in place; `code` has the new bytes.
        CodePatched = 26 {
            /// First changed byte.
            address: u64,
            /// `patch_reasons`.
            reason: u8,
            /// New bytes.
            code: Bytes,
            /// OS thread id of the thread that wrote them.
            tid: u32,
            /// TSC read before they were written: no thread executes them earlier. 0 if not known.
            since: Appended<u64>,
        }
        /// An nmethod changed its state.
        NMethodStateChanged = 27 {
            /// `nmethod*`.
            nmethod: u64,
            /// `nmethod_states`.
            state: u8,
        }
        /// Memory of a code blob or nmethod was given back.
        CodeFreed = 28 {
            /// First byte of code.
            start: u64,
            /// Bytes.
            size: u64,
        }
        /// Path markers of the nmethod whose `NMethodInstalled` the same thread committed just
        /// before (records of other threads may lie in between); committed before it can run. Not
        /// there for native wrappers, nor for code compiled with path markers off. `FORMAT.md` says
        /// what may be concluded from them.
        NMethodMarkers = 29 {
            /// `code_begin()` of the nmethod, base of every offset below.
            start: u64,
            /// `nmethod*`.
            nmethod: u64,
            /// Compile id.
            compile_id: u32,
            /// `path_precisions`.
            precision: u8,
            /// Inline chains; a caller precedes its callees.
            contexts: Vec<InlineContext>,
            /// The lists of the offsets and edges, concatenated.
            markers: Vec<PathMarker>,
            /// By ascending offset, each offset once.
            offsets: Vec<MarkedOffset>,
            /// By ascending `from`, `outcome` and `to`; each triple once.
            edges: Vec<MarkedEdge>,
        }
        /// A thread came to the VM to have a call resolved (`SharedRuntime::resolve_helper`,
        /// `handle_ic_miss_helper`, `handle_wrong_method`) or, from format 2.0 on, the instruction
        /// of a patch stub (`Runtime1::patch_code`): one record each time, committed between the
        /// stub's call of the VM and its end, whether or not a `CodePatched` follows.
        Resolution = 30 {
            /// OS thread id.
            tid: u32,
            /// Where the call returns, that of the patch stub if it was one.
            return_address: u64,
        }
        /// Something the recorder could not do, in words; shown by `jportal info`.
        Notice = 32 {
            /// Text.
            text: Str,
        }
    }
}

/// Size of the frame header before each record body: `len: u32` (header included),
/// `kind: u16`, `flags: u16` (0), `tsc: u64`.
pub const FRAME_HEADER: usize = 16;

/// A record with the time of its commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamped {
    /// When the producer committed it (its own `rdtsc`).
    pub tsc: u64,
    /// The record.
    pub record: Record,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_unique_and_lists_come_last() {
        let mut kinds: Vec<u16> = SCHEMA.iter().filter_map(|s| s.kind).collect();
        let n = kinds.len();
        kinds.sort_unstable();
        kinds.dedup();
        assert_eq!(kinds.len(), n);
        for s in SCHEMA {
            let lists: Vec<bool> = s.fields.iter().map(|f| f.ty.contains("Vec")).collect();
            assert!(lists.windows(2).all(|w| w[0] <= w[1]), "{}: a list precedes a scalar", s.name);
        }
    }

    #[test]
    fn a_record_survives_the_round_trip() {
        let r = Record::MethodStub(MethodStub { method: 1, address: 2, target: 3 });
        let mut body = Vec::new();
        r.encode(&mut body);
        assert_eq!(Record::decode(r.kind(), &body).unwrap(), r);
        assert!(Record::decode(r.kind(), &body[..body.len() - 1]).is_err());
    }
}
