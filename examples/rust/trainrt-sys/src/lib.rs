// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Declarations of trainrt.h and checkpoint.h: what training, evaluating and checkpoints take. The header has the rules.
//!
//! A struct with `size` is as version 1.0 of the ABI has it: the library then takes the defaults of what came later.
#![allow(non_camel_case_types)]
use std::ffi::{c_char, c_int, c_void};

pub type trainrt_status = c_int;
pub const TRAINRT_OK: trainrt_status = 0;
pub const TRAINRT_NOT_FOUND: trainrt_status = 5;

pub type trainrt_dtype = c_int;
pub const TRAINRT_F32: trainrt_dtype = 0;
pub const TRAINRT_I64: trainrt_dtype = 7;

pub const TRAINRT_EVAL_FILL_MISSING: u32 = 1;

macro_rules! opaque {
    ($($name:ident),*) => {$(
        #[repr(C)]
        pub struct $name {
            _private: [u8; 0],
        }
    )*};
}
opaque!(trainrt_error, trainrt_package, trainrt_session);

#[repr(C)]
pub struct trainrt_tensor {
    pub data: *mut c_void,
    pub dtype: trainrt_dtype,
    pub rank: i32,
    pub shape: *const i64,
}

#[repr(C)]
pub struct trainrt_named_tensor {
    pub name: *const c_char,
    pub tensor: trainrt_tensor,
}

#[repr(C)]
pub struct trainrt_batch {
    pub inputs: *const trainrt_named_tensor,
    pub count: usize,
}

#[repr(C)]
pub struct trainrt_allocator {
    pub user: *mut c_void,
    pub allocate: Option<unsafe extern "C" fn(*mut c_void, usize, usize) -> *mut c_void>,
    pub deallocate: Option<unsafe extern "C" fn(*mut c_void, *mut c_void, usize)>,
}

#[repr(C)]
pub struct trainrt_session_options {
    pub size: usize,
    pub threads: u32,
    pub inference: i32,
    pub seed: i64,
    pub weights: c_int,
    pub weights_path: *const c_char,
    pub init_std: f64,
    pub allocator: trainrt_allocator,
}

#[repr(C)]
pub struct trainrt_step_result {
    pub size: usize,
    pub step: i64,
    pub loss: f64,
    pub lr: f64,
    pub milliseconds: f64,
    pub peak_bytes: u64,
    pub nonfinite: i32,
}

#[repr(C)]
pub struct trainrt_eval_options {
    pub size: usize,
    pub flags: u32,
}

#[repr(C)]
pub struct trainrt_eval_result {
    pub size: usize,
    pub loss: f64,
    pub milliseconds: f64,
    pub peak_bytes: u64,
}

#[repr(C)]
pub struct trainrt_checkpoint_info {
    pub size: usize,
    pub step: i64,
    pub seed: i64,
    pub path: *const c_char,
    pub data_position: *const c_char,
}

extern "C" {
    pub fn trainrt_version() -> u32;
    pub fn trainrt_error_status(error: *const trainrt_error) -> trainrt_status;
    pub fn trainrt_error_message(error: *const trainrt_error) -> *const c_char;
    pub fn trainrt_error_free(error: *mut trainrt_error);
    pub fn trainrt_package_open(
        path: *const c_char,
        package: *mut *mut trainrt_package,
        error: *mut *mut trainrt_error,
    ) -> trainrt_status;
    pub fn trainrt_package_free(package: *mut trainrt_package);
    pub fn trainrt_session_create(
        package: *const trainrt_package,
        options: *const trainrt_session_options,
        session: *mut *mut trainrt_session,
        error: *mut *mut trainrt_error,
    ) -> trainrt_status;
    pub fn trainrt_session_free(session: *mut trainrt_session);
    pub fn trainrt_session_step(session: *const trainrt_session) -> i64;
    pub fn trainrt_step(
        session: *mut trainrt_session,
        batches: *const trainrt_batch,
        batch_count: usize,
        options: *const c_void,
        result: *mut trainrt_step_result,
        error: *mut *mut trainrt_error,
    ) -> trainrt_status;
    pub fn trainrt_eval(
        session: *mut trainrt_session,
        batch: *const trainrt_batch,
        options: *const trainrt_eval_options,
        result: *mut trainrt_eval_result,
        error: *mut *mut trainrt_error,
    ) -> trainrt_status;
    pub fn trainrt_session_output(
        session: *const trainrt_session,
        name: *const c_char,
        tensor: *mut trainrt_tensor,
        error: *mut *mut trainrt_error,
    ) -> trainrt_status;
    pub fn trainrt_tensor_elements(tensor: *const trainrt_tensor) -> i64;
    pub fn trainrt_checkpoint_save(
        session: *mut trainrt_session,
        directory: *const c_char,
        keep: u32,
        data_position: *const c_char,
        error: *mut *mut trainrt_error,
    ) -> trainrt_status;
    pub fn trainrt_checkpoint_load(
        session: *mut trainrt_session,
        directory: *const c_char,
        info: *mut trainrt_checkpoint_info,
        error: *mut *mut trainrt_error,
    ) -> trainrt_status;
}
