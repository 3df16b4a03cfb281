package drv

import (
	"math"
	"time"
	"unsafe"
)

// A Stream is a queue of work for a GPU: what is in one is done in order, two know each other by
// events alone.
type Stream uintptr

// An Event is a mark in a stream. Recorded again, it stands for the new place; who waits for the
// old one goes on doing so.
type Event uintptr

// NewStream makes a stream. Where there is a choice the GPU prefers work of lower priority numbers:
// 0 is the lowest, -1 and so on are higher.
func (t *Thread) NewStream(priority int) (Stream, error) {
	if code := t.call(t.driver.f.cuStreamCreateWithPriority, t.number(), streamNonBlocking, uintptr(uint32(int32(priority)))); code != success {
		return 0, t.fail(code, "cuStreamCreateWithPriority %d", priority)
	}
	return Stream(t.num[0]), nil
}

// DestroyStream gives a stream back; what is in it is still done.
func (t *Thread) DestroyStream(s Stream) error {
	if code := t.call(t.driver.f.cuStreamDestroy, uintptr(s)); code != success {
		return t.fail(code, "cuStreamDestroy_v2")
	}
	return nil
}

// Synchronize waits until all that is in the stream is done. It reports what failed in it.
func (t *Thread) Synchronize(s Stream) error {
	if code := t.blocking(&nameStreamSynchronize, t.driver.f.cuStreamSynchronize, uintptr(s)); code != success {
		return t.fail(code, "cuStreamSynchronize")
	}
	return nil
}

// WaitEvent lets what is put into s from now on wait for the last Record of e. If there was none it
// does nothing.
func (t *Thread) WaitEvent(s Stream, e Event) error {
	if code := t.call(t.driver.f.cuStreamWaitEvent, uintptr(s), uintptr(e), 0); code != success {
		return t.fail(code, "cuStreamWaitEvent")
	}
	return nil
}

// NewEvent makes an event; with timing it can be asked for times, and costs the GPU more. A thread
// that waits for it sleeps.
func (t *Thread) NewEvent(timing bool) (Event, error) {
	flags := uintptr(eventBlockingSync | eventDisableTiming)
	if timing {
		flags = eventBlockingSync
	}
	if code := t.call(t.driver.f.cuEventCreate, t.number(), flags); code != success {
		return 0, t.fail(code, "cuEventCreate")
	}
	return Event(t.num[0]), nil
}

// DestroyEvent gives an event back; waits for it go on.
func (t *Thread) DestroyEvent(e Event) error {
	if code := t.call(t.driver.f.cuEventDestroy, uintptr(e)); code != success {
		return t.fail(code, "cuEventDestroy_v2")
	}
	return nil
}

// Record puts e behind what is in s now.
func (t *Thread) Record(e Event, s Stream) error {
	if code := t.call(t.driver.f.cuEventRecord, uintptr(e), uintptr(s)); code != success {
		return t.fail(code, "cuEventRecord")
	}
	return nil
}

// Query says whether everything before the last Record of e is done. An event that was never
// recorded is.
func (t *Thread) Query(e Event) (done bool, err error) {
	switch code := t.call(t.driver.f.cuEventQuery, uintptr(e)); code {
	case success:
		return true, nil
	case errorNotReady:
		return false, nil
	default:
		return false, t.fail(code, "cuEventQuery")
	}
}

// SynchronizeEvent waits until everything before the last Record of e is done. It blocks the
// thread.
func (t *Thread) SynchronizeEvent(e Event) error {
	if code := t.blocking(&nameEventSynchronize, t.driver.f.cuEventSynchronize, uintptr(e)); code != success {
		return t.fail(code, "cuEventSynchronize")
	}
	return nil
}

// Elapsed returns the time between two events with timing, both of which are done. Its unit is
// about half a microsecond.
func (t *Thread) Elapsed(from, to Event) (time.Duration, error) {
	if code := t.call(t.driver.f.cuEventElapsedTime, t.number(), uintptr(from), uintptr(to)); code != success {
		return 0, t.fail(code, "cuEventElapsedTime")
	}
	ms := *(*float32)(unsafe.Pointer(&t.num[0]))
	return time.Duration(math.Round(float64(ms) * float64(time.Millisecond))), nil
}
