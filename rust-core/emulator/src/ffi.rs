// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! QEMU's plugin interface, version 1 (`include/qemu/qemu-plugin.h` of QEMU 7.2).
//!
//! The functions are declared by hand and resolved when QEMU loads the library. A callback must
//! not unwind into QEMU. A panic ends the process, because the trace after it would be wrong.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use crate::block::{Block, InsnBytes};
use crate::config::Config;
use crate::error::Error;
use crate::host;
use crate::plugin::{Hook, Plugin};

type Id = u64;
type ExecCallback = extern "C" fn(vcpu: c_uint, userdata: *mut c_void);
type MemCallback = extern "C" fn(vcpu: c_uint, info: u32, address: u64, userdata: *mut c_void);
type SyscallCallback = extern "C" fn(Id, c_uint, i64, u64, u64, u64, u64, u64, u64, u64, u64);

/// `QEMU_PLUGIN_CB_NO_REGS`.
const NO_REGS: c_int = 0;
/// `QEMU_PLUGIN_MEM_R`.
const MEM_READ: c_int = 1;
/// `QEMU_PLUGIN_MEM_W`.
const MEM_WRITE: c_int = 2;

unsafe extern "C" {
    fn qemu_plugin_register_vcpu_tb_trans_cb(id: Id, f: extern "C" fn(Id, *mut c_void));
    fn qemu_plugin_register_vcpu_tb_exec_cb(tb: *mut c_void, f: ExecCallback, flags: c_int, u: *mut c_void);
    fn qemu_plugin_register_vcpu_mem_cb(
        insn: *mut c_void,
        f: MemCallback,
        flags: c_int,
        rw: c_int,
        u: *mut c_void,
    );
    fn qemu_plugin_register_vcpu_init_cb(id: Id, f: extern "C" fn(Id, c_uint));
    fn qemu_plugin_register_vcpu_exit_cb(id: Id, f: extern "C" fn(Id, c_uint));
    fn qemu_plugin_register_vcpu_syscall_cb(id: Id, f: SyscallCallback);
    fn qemu_plugin_register_atexit_cb(id: Id, f: extern "C" fn(Id, *mut c_void), u: *mut c_void);
    fn qemu_plugin_tb_n_insns(tb: *const c_void) -> usize;
    fn qemu_plugin_tb_get_insn(tb: *const c_void, i: usize) -> *mut c_void;
    fn qemu_plugin_insn_data(insn: *const c_void) -> *const c_void;
    fn qemu_plugin_insn_size(insn: *const c_void) -> usize;
    fn qemu_plugin_insn_vaddr(insn: *const c_void) -> u64;
}

/// The interface version this plugin is written for.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static qemu_plugin_version: c_int = 1;

static PLUGIN: OnceLock<Plugin> = OnceLock::new();

extern "C" fn block_inside(vcpu: c_uint, userdata: *mut c_void) {
    if let Some(p) = PLUGIN.get() {
        // SAFETY: `userdata` is the leaked block registered in `translated`; QEMU calls on the
        // vCPU's own thread.
        unsafe { p.inside(vcpu, &*userdata.cast::<Block>()) }
    }
}

extern "C" fn block_outside(vcpu: c_uint, userdata: *mut c_void) {
    if let Some(p) = PLUGIN.get() {
        // SAFETY: QEMU calls on the vCPU's own thread.
        unsafe { p.outside(vcpu, userdata as u64) }
    }
}

extern "C" fn block_unsorted(vcpu: c_uint, userdata: *mut c_void) {
    if let Some(p) = PLUGIN.get() {
        // SAFETY: as in `block_inside`.
        unsafe { p.unsorted(vcpu, &*userdata.cast::<Block>()) }
    }
}

extern "C" fn block_of_handler(vcpu: c_uint, _userdata: *mut c_void) {
    if let Some(p) = PLUGIN.get() {
        // SAFETY: QEMU calls on the vCPU's own thread.
        unsafe { p.handler(vcpu) }
    }
}

extern "C" fn stack_access(vcpu: c_uint, _info: u32, address: u64, userdata: *mut c_void) {
    if let Some(p) = PLUGIN.get() {
        // SAFETY: QEMU calls on the vCPU's own thread.
        unsafe { p.frame(vcpu, address.wrapping_add(userdata as u64)) }
    }
}

/// The instructions of a block and QEMU's handles for them. QEMU keeps them for the duration of
/// the translation callback.
///
/// # Safety
/// `tb` is the block of the running translation callback; the result must not outlive it.
unsafe fn instructions<'a>(tb: *const c_void) -> (Vec<InsnBytes<'a>>, Vec<*mut c_void>) {
    // SAFETY: the caller's promise.
    let n = unsafe { qemu_plugin_tb_n_insns(tb) };
    let mut list = Vec::with_capacity(n);
    let mut handles = Vec::with_capacity(n);
    for i in 0..n {
        // SAFETY: `i < n`; QEMU's instruction data are `size` bytes that live as long as the block.
        let (insn, handle) = unsafe {
            let handle = qemu_plugin_tb_get_insn(tb, i);
            let data = qemu_plugin_insn_data(handle).cast::<u8>();
            let bytes = std::slice::from_raw_parts(data, qemu_plugin_insn_size(handle));
            (InsnBytes { address: qemu_plugin_insn_vaddr(handle), bytes }, handle)
        };
        list.push(insn);
        handles.push(handle);
    }
    (list, handles)
}

extern "C" fn translated(_id: Id, tb: *mut c_void) {
    let Some(p) = PLUGIN.get() else { return };
    // SAFETY: `tb` is this callback's block, and the lists end with the callback.
    let (insns, handles) = unsafe { instructions(tb) };
    if insns.is_empty() {
        return;
    }
    let (hook, accesses) = p.translate(&insns);
    for access in accesses {
        let rw = if access.reads { MEM_READ } else { MEM_WRITE };
        for (insn, &handle) in insns.iter().zip(&handles) {
            if insn.address == access.instruction {
                let distance = access.distance as *mut c_void;
                // SAFETY: `handle` is an instruction of this callback's block.
                unsafe { qemu_plugin_register_vcpu_mem_cb(handle, stack_access, NO_REGS, rw, distance) }
            }
        }
    }
    let (callback, userdata): (ExecCallback, *mut c_void) = match hook {
        Hook::Inside(block) => (block_inside, std::ptr::from_ref(block).cast_mut().cast()),
        Hook::Unsorted(block) => (block_unsorted, std::ptr::from_ref(block).cast_mut().cast()),
        Hook::Outside(address) => (block_outside, address as *mut c_void),
        Hook::Handler(_) => (block_of_handler, std::ptr::null_mut()),
    };
    // SAFETY: `tb` is this callback's block; the user data are a number or a leaked block.
    unsafe { qemu_plugin_register_vcpu_tb_exec_cb(tb, callback, NO_REGS, userdata) }
}

extern "C" fn vcpu_changes(_id: Id, vcpu: c_uint) {
    if let Some(p) = PLUGIN.get() {
        // SAFETY: QEMU creates a vCPU before its thread starts and ends it on that thread.
        unsafe { p.reset_thread(vcpu) }
    }
}

#[allow(clippy::too_many_arguments)]
extern "C" fn syscall(
    _id: Id,
    vcpu: c_uint,
    number: i64,
    _a1: u64,
    a2: u64,
    _a3: u64,
    _a4: u64,
    _a5: u64,
    _a6: u64,
    _a7: u64,
    _a8: u64,
) {
    if let Some(p) = PLUGIN.get() {
        // SAFETY: QEMU calls on the vCPU's own thread.
        unsafe { p.syscall(vcpu, number, a2) }
    }
}

extern "C" fn at_exit(_id: Id, _userdata: *mut c_void) {
    if let Some(p) = PLUGIN.get() {
        host::exit(p);
    }
}

extern "C" fn in_forked_child() {
    if let Some(p) = PLUGIN.get() {
        p.forked();
    }
}

/// Creates the plugin from its arguments and starts the host thread.
///
/// # Safety
/// `argv` holds `argc` NUL-terminated strings.
unsafe fn start(argc: c_int, argv: *const *const c_char) -> Result<&'static Plugin, Error> {
    let mut arguments = Vec::new();
    for i in 0..usize::try_from(argc).unwrap_or(0) {
        // SAFETY: the caller's promise.
        let text = unsafe { CStr::from_ptr(*argv.add(i)) };
        arguments.push(text.to_string_lossy().into_owned());
    }
    let config = Config::parse(arguments.iter().map(String::as_str))?;
    let plugin = Plugin::new(config)?;
    let plugin = PLUGIN.get_or_init(|| plugin);
    // SAFETY: the handler only stores two atomics.
    unsafe { libc::pthread_atfork(None, None, Some(in_forked_child)) };
    host::spawn(plugin).map_err(Error::Thread)?;
    Ok(plugin)
}

/// Called by QEMU when it loads the plugin.
///
/// # Safety
/// Called once by QEMU, with `argc` arguments in `argv`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: Id,
    _info: *const c_void,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    // SAFETY: QEMU's arguments.
    if let Err(e) = unsafe { start(argc, argv) } {
        eprintln!("jportal-emulator: {e}");
        return 1;
    }
    // SAFETY: `id` is this plugin's; the callbacks have the types of the interface and live as long
    // as the library, which QEMU does not unload.
    unsafe {
        qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
        qemu_plugin_register_vcpu_init_cb(id, vcpu_changes);
        qemu_plugin_register_vcpu_exit_cb(id, vcpu_changes);
        qemu_plugin_register_vcpu_syscall_cb(id, syscall);
        qemu_plugin_register_atexit_cb(id, at_exit, std::ptr::null_mut());
    }
    0
}
