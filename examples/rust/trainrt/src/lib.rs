// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Trains and evaluates packages that trainc compiled.
//!
//! A [`Session`] can be sent to another thread, and is used by one at a time, as `&mut` has it. Batches borrow their
//! arrays; what a call returns is copied out of the session, so that nothing outlives a call.
use std::ffi::{c_void, CStr, CString};
use std::marker::PhantomData;
use std::path::Path;
use std::ptr;
use trainrt_sys as sys;

/// What the library says, with the number of its status (`trainrt_status` of trainrt.h).
#[derive(Debug)]
pub struct Error {
    pub status: i32,
    pub message: String,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

pub type Result<T> = std::result::Result<T, Error>;

/// Calls a function of the C API with room for its error.
fn call(f: impl FnOnce(*mut *mut sys::trainrt_error) -> sys::trainrt_status) -> Result<()> {
    let mut error = ptr::null_mut();
    let status = f(&mut error);
    if status == sys::TRAINRT_OK {
        return Ok(());
    }
    // The message is the error's, which is freed here.
    let message = unsafe {
        let text = CStr::from_ptr(sys::trainrt_error_message(error)).to_string_lossy().into_owned();
        sys::trainrt_error_free(error);
        text
    };
    Err(Error { status, message })
}

/// Names and paths with a zero in them are none.
fn c_string(text: &str) -> CString {
    CString::new(text).expect("a text without zeros")
}

fn c_path(path: &Path) -> CString {
    c_string(path.to_str().expect("a path in UTF-8"))
}

/// A type of elements that batches can have and outputs be read as.
pub trait Element: Copy + private::Sealed {
    #[doc(hidden)]
    const DTYPE: sys::trainrt_dtype;
}
impl Element for f32 {
    const DTYPE: sys::trainrt_dtype = sys::TRAINRT_F32;
}
impl Element for i64 {
    const DTYPE: sys::trainrt_dtype = sys::TRAINRT_I64;
}
mod private {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for i64 {}
}

pub struct Package(*mut sys::trainrt_package);

// What the header says: a package may be shared by threads.
unsafe impl Send for Package {}
unsafe impl Sync for Package {}

impl Package {
    pub fn open(path: impl AsRef<Path>) -> Result<Package> {
        let path = c_path(path.as_ref());
        let mut package = ptr::null_mut();
        call(|error| unsafe { sys::trainrt_package_open(path.as_ptr(), &mut package, error) })?;
        Ok(Package(package))
    }
}

impl Drop for Package {
    fn drop(&mut self) {
        unsafe { sys::trainrt_package_free(self.0) }
    }
}

struct Input<'a> {
    name: CString,
    shape: Vec<i64>,
    dtype: sys::trainrt_dtype,
    data: *const c_void,
    borrowed: PhantomData<&'a ()>,
}

/// Arrays by the names of the model's inputs.
#[derive(Default)]
pub struct Batch<'a>(Vec<Input<'a>>);

impl<'a> Batch<'a> {
    pub fn new() -> Self {
        Batch(Vec::new())
    }

    /// `values` in row-major order; as many as `shape` says.
    pub fn add<T: Element>(mut self, name: &str, values: &'a [T], shape: &[usize]) -> Self {
        assert_eq!(values.len(), shape.iter().product::<usize>(), "'{name}': elements of the shape");
        self.0.push(Input {
            name: c_string(name),
            shape: shape.iter().map(|&dim| dim as i64).collect(),
            dtype: T::DTYPE,
            data: values.as_ptr().cast(),
            borrowed: PhantomData,
        });
        self
    }

    /// The library only reads what `data` points to.
    fn with<R>(&self, f: impl FnOnce(&sys::trainrt_batch) -> R) -> R {
        let inputs: Vec<_> = self
            .0
            .iter()
            .map(|input| sys::trainrt_named_tensor {
                name: input.name.as_ptr(),
                tensor: sys::trainrt_tensor {
                    data: input.data as *mut c_void,
                    dtype: input.dtype,
                    rank: input.shape.len() as i32,
                    shape: input.shape.as_ptr(),
                },
            })
            .collect();
        f(&sys::trainrt_batch { inputs: inputs.as_ptr(), count: inputs.len() })
    }
}

/// `threads` 0: all cores; results never depend on it.
#[derive(Clone, Copy, Default)]
pub struct Options {
    pub threads: u32,
    pub seed: i64,
}

#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub number: i64,
    pub loss: f64,
    pub lr: f64,
}

pub struct Session(*mut sys::trainrt_session);

// Used by one thread at a time, whichever that is.
unsafe impl Send for Session {}

impl Session {
    pub fn new(package: &Package, options: Options) -> Result<Session> {
        let options = sys::trainrt_session_options {
            size: std::mem::size_of::<sys::trainrt_session_options>(),
            threads: options.threads,
            inference: 0,
            seed: options.seed,
            weights: 0,
            weights_path: ptr::null(),
            init_std: 0.02,
            allocator: sys::trainrt_allocator { user: ptr::null_mut(), allocate: None, deallocate: None },
        };
        let mut session = ptr::null_mut();
        call(|error| unsafe { sys::trainrt_session_create(package.0, &options, &mut session, error) })?;
        Ok(Session(session))
    }

    /// Steps done so far, also before a checkpoint.
    pub fn steps(&self) -> i64 {
        unsafe { sys::trainrt_session_step(self.0) }
    }

    pub fn step(&mut self, batch: &Batch) -> Result<Step> {
        let mut result = sys::trainrt_step_result {
            size: std::mem::size_of::<sys::trainrt_step_result>(),
            step: 0,
            loss: 0.0,
            lr: 0.0,
            milliseconds: 0.0,
            peak_bytes: 0,
            nonfinite: 0,
        };
        batch.with(|batch| {
            call(|error| unsafe { sys::trainrt_step(self.0, batch, 1, ptr::null(), &mut result, error) })
        })?;
        Ok(Step { number: result.step, loss: result.loss, lr: result.lr })
    }

    fn run(&mut self, batch: &Batch, flags: u32) -> Result<f64> {
        let options =
            sys::trainrt_eval_options { size: std::mem::size_of::<sys::trainrt_eval_options>(), flags };
        let mut result = sys::trainrt_eval_result {
            size: std::mem::size_of::<sys::trainrt_eval_result>(),
            loss: 0.0,
            milliseconds: 0.0,
            peak_bytes: 0,
        };
        batch.with(|batch| {
            call(|error| unsafe { sys::trainrt_eval(self.0, batch, &options, &mut result, error) })
        })?;
        Ok(result.loss)
    }

    /// The loss in evaluation mode.
    pub fn evaluate(&mut self, batch: &Batch) -> Result<f64> {
        self.run(batch, 0)
    }

    /// An output for a batch that may lack labels.
    pub fn predict<T: Element>(&mut self, batch: &Batch, output: &str) -> Result<Vec<T>> {
        self.run(batch, sys::TRAINRT_EVAL_FILL_MISSING)?;
        let name = c_string(output);
        let mut tensor =
            sys::trainrt_tensor { data: ptr::null_mut(), dtype: 0, rank: 0, shape: ptr::null() };
        call(|error| unsafe { sys::trainrt_session_output(self.0, name.as_ptr(), &mut tensor, error) })?;
        assert_eq!(tensor.dtype, T::DTYPE, "'{output}' has elements of another type");
        // The view is valid until the next call, and copied before it.
        unsafe {
            let count = sys::trainrt_tensor_elements(&tensor) as usize;
            Ok(std::slice::from_raw_parts(tensor.data as *const T, count).to_vec())
        }
    }

    /// Of all checkpoints in the folder, the newest `keep` stay; 0: all.
    pub fn save(&mut self, folder: impl AsRef<Path>, keep: u32) -> Result<()> {
        let folder = c_path(folder.as_ref());
        call(|error| unsafe {
            sys::trainrt_checkpoint_save(self.0, folder.as_ptr(), keep, ptr::null(), error)
        })
    }

    /// The step of the newest checkpoint, which is loaded; `None` where there is none.
    pub fn load(&mut self, folder: impl AsRef<Path>) -> Result<Option<i64>> {
        let folder = c_path(folder.as_ref());
        let loaded = call(|error| unsafe {
            sys::trainrt_checkpoint_load(self.0, folder.as_ptr(), ptr::null_mut(), error)
        });
        match loaded {
            Ok(()) => Ok(Some(self.steps())),
            Err(error) if error.status == sys::TRAINRT_NOT_FOUND => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        unsafe { sys::trainrt_session_free(self.0) }
    }
}
