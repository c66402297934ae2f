// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Package trainrt trains and evaluates packages that trainc compiled, over the C API of libtrainrt, which pkg-config finds.
//
// A Session is used by one goroutine at a time. Arrays are copied in and out, so that C never holds memory of Go between calls,
// and nothing that a call returns ends with the session. Close gives a Package's or Session's memory back.
package trainrt

// #cgo pkg-config: trainrt
// #include <stdlib.h>
// #include <string.h>
// #include <trainrt/trainrt.h>
import "C"

import (
	"fmt"
	"unsafe"
)

// Error is what the library says. Status is a trainrt_status of trainrt.h: what the caller can do about it.
type Error struct {
	Status  int
	Message string
}

func (e *Error) Error() string { return e.Message }

// NotFound is the status of a name, file or checkpoint that is not there.
const NotFound = int(C.TRAINRT_NOT_FOUND)

// failure is nil for TRAINRT_OK; the error of the library is freed. It is given by its address, as Go may read
// a variable before the call that sets it, when both are arguments.
func failure(status C.trainrt_status, err **C.trainrt_error) error {
	if status == C.TRAINRT_OK {
		return nil
	}
	defer C.trainrt_error_free(*err)
	return &Error{int(status), C.GoString(C.trainrt_error_message(*err))}
}

// Element is a type of elements that batches can have and outputs be read as.
type Element interface{ float32 | int64 }

func dtypeOf[T Element]() C.trainrt_dtype {
	var zero T
	if _, ok := any(zero).(float32); ok {
		return C.TRAINRT_F32
	}
	return C.TRAINRT_I64
}

// Tensor is an array in row-major order.
type Tensor struct {
	dtype C.trainrt_dtype
	shape []C.int64_t
	data  unsafe.Pointer // of a slice, which the pointer keeps
	bytes C.size_t
}

// Array makes a tensor of values, which it refers to. It panics unless they are as many as the shape says.
func Array[T Element](values []T, shape ...int) Tensor {
	tensor := Tensor{dtype: dtypeOf[T](), bytes: C.size_t(len(values)) * C.size_t(unsafe.Sizeof(*new(T)))}
	count := 1
	for _, extent := range shape {
		tensor.shape = append(tensor.shape, C.int64_t(extent))
		count *= extent
	}
	if count != len(values) {
		panic(fmt.Sprintf("trainrt: %d values for shape %v", len(values), shape))
	}
	if count > 0 {
		tensor.data = unsafe.Pointer(&values[0])
	}
	return tensor
}

// Batch is arrays by the names of the model's inputs.
type Batch map[string]Tensor

// memory is of C, and lives for a call: structs of C that point to others cannot hold pointers of Go.
type memory []unsafe.Pointer

func (m *memory) allocate(bytes C.size_t) unsafe.Pointer {
	place := C.malloc(bytes + 1) // never of 0 bytes
	*m = append(*m, place)
	return place
}

func (m *memory) text(s string) *C.char {
	place := C.CString(s)
	*m = append(*m, unsafe.Pointer(place))
	return place
}

func (m *memory) free() {
	for _, place := range *m {
		C.free(place)
	}
}

// batch is the batch as C has it, until m is freed.
func (m *memory) batch(batch Batch) *C.trainrt_batch {
	inputs := (*C.trainrt_named_tensor)(m.allocate(C.size_t(len(batch)) * C.sizeof_trainrt_named_tensor))
	list := unsafe.Slice(inputs, len(batch))
	i := 0
	for name, tensor := range batch {
		shape := (*C.int64_t)(m.allocate(C.size_t(len(tensor.shape)) * 8))
		copy(unsafe.Slice(shape, len(tensor.shape)), tensor.shape)
		data := m.allocate(tensor.bytes)
		if tensor.bytes > 0 {
			C.memcpy(data, tensor.data, tensor.bytes)
		}
		list[i].name = m.text(name)
		list[i].tensor = C.trainrt_tensor{data: data, dtype: tensor.dtype, rank: C.int32_t(len(tensor.shape)), shape: shape}
		i++
	}
	made := (*C.trainrt_batch)(m.allocate(C.sizeof_trainrt_batch))
	made.inputs, made.count = inputs, C.size_t(len(batch))
	return made
}

// Package is a compiled model. Goroutines may share one.
type Package struct{ handle *C.trainrt_package }

// Open maps and checks a package, and runs nothing of it.
func Open(path string) (*Package, error) {
	var m memory
	defer m.free()
	var made Package
	var err *C.trainrt_error
	if e := failure(C.trainrt_package_open(m.text(path), &made.handle, &err), &err); e != nil {
		return nil, e
	}
	return &made, nil
}

// Close may come before that of the package's sessions.
func (p *Package) Close() {
	C.trainrt_package_free(p.handle)
	p.handle = nil
}

// Options of a session. Threads 0: all cores; results never depend on it.
type Options struct {
	Threads uint
	Seed    int64
}

// Session holds parameters and the optimizer's state, and trains them.
type Session struct{ handle *C.trainrt_session }

// NewSession begins with the weights that the package names.
func NewSession(p *Package, options Options) (*Session, error) {
	chosen := C.trainrt_session_options_default()
	chosen.threads, chosen.seed = C.uint32_t(options.Threads), C.int64_t(options.Seed)
	var made Session
	var err *C.trainrt_error
	if e := failure(C.trainrt_session_create(p.handle, &chosen, &made.handle, &err), &err); e != nil {
		return nil, e
	}
	return &made, nil
}

// Close ends the session; what was not saved is gone.
func (s *Session) Close() {
	C.trainrt_session_free(s.handle)
	s.handle = nil
}

// Steps are those done so far, also before a checkpoint.
func (s *Session) Steps() int64 { return int64(C.trainrt_session_step(s.handle)) }

// StepResult is what a step tells; Loss is that before its update.
type StepResult struct {
	Number   int64
	Loss, LR float64
}

// Step makes one step of the optimizer over micro-batches, at least one. After an error the session is as before.
func (s *Session) Step(batches ...Batch) (StepResult, error) {
	var m memory
	defer m.free()
	list := (*C.trainrt_batch)(m.allocate(C.size_t(len(batches)) * C.sizeof_trainrt_batch))
	for i, batch := range batches {
		unsafe.Slice(list, len(batches))[i] = *m.batch(batch)
	}
	result := C.trainrt_step_result_default()
	var err *C.trainrt_error
	status := C.trainrt_step(s.handle, list, C.size_t(len(batches)), nil, &result, &err)
	return StepResult{int64(result.step), float64(result.loss), float64(result.lr)}, failure(status, &err)
}

func (s *Session) run(batch Batch, flags C.uint32_t) (float64, error) {
	var m memory
	defer m.free()
	options, result := C.trainrt_eval_options_default(), C.trainrt_eval_result_default()
	options.flags = flags
	var err *C.trainrt_error
	status := C.trainrt_eval(s.handle, m.batch(batch), &options, &result, &err)
	return float64(result.loss), failure(status, &err)
}

// Evaluate returns the loss in evaluation mode.
func (s *Session) Evaluate(batch Batch) (float64, error) { return s.run(batch, 0) }

// Predict returns an output for a batch that may lack labels. It panics if the output has elements of another type.
func Predict[T Element](s *Session, batch Batch, output string) ([]T, error) {
	if _, err := s.run(batch, C.TRAINRT_EVAL_FILL_MISSING); err != nil {
		return nil, err
	}
	var m memory
	defer m.free()
	// In memory of C, as what the library points to is.
	tensor := (*C.trainrt_tensor)(m.allocate(C.sizeof_trainrt_tensor))
	var err *C.trainrt_error
	if e := failure(C.trainrt_session_output(s.handle, m.text(output), tensor, &err), &err); e != nil {
		return nil, e
	}
	if tensor.dtype != dtypeOf[T]() {
		panic(fmt.Sprintf("trainrt: '%s' has elements of type %s", output, C.GoString(C.trainrt_dtype_name(tensor.dtype))))
	}
	// The view is valid until the next call, and copied before it.
	return append([]T(nil), unsafe.Slice((*T)(tensor.data), int(C.trainrt_tensor_elements(tensor)))...), nil
}

// Save writes a checkpoint. Of all in the folder the newest keep stay; 0: all.
func (s *Session) Save(folder string, keep uint) error {
	var m memory
	defer m.free()
	var err *C.trainrt_error
	return failure(C.trainrt_checkpoint_save(s.handle, m.text(folder), C.uint32_t(keep), nil, &err), &err)
}

// Load takes the folder's newest checkpoint; false where there is none.
func (s *Session) Load(folder string) (bool, error) {
	var m memory
	defer m.free()
	var err *C.trainrt_error
	e := failure(C.trainrt_checkpoint_load(s.handle, m.text(folder), nil, &err), &err)
	if known, ok := e.(*Error); ok && known.Status == NotFound {
		return false, nil
	}
	return e == nil, e
}
