// What the fake libcuda offers to the fakes of the libraries above it (cuDNN, cuBLASLt, NCCL), beside the driver's own functions.
//
// A library hands its work over by enqueue. The fake driver decides when it is done: at once, as late as waits allow, or in a shuffled
// order, but always after what was in the stream before, and after the events that the stream waits for. In a stream that is being captured
// the work becomes a node of the graph, and run is called at every launch of it.
#pragma once
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#pragma GCC visibility push(default)

namespace fakecuda {

// Range is device memory that work reads or writes. It must lie within one allocation of the stream's device, when the work is put
// into the stream and when it is done.
struct Range {
  uint64_t p;
  size_t bytes;
  bool write;
};

// Run does the work. It returns 0, or the CUresult that the device is broken with from then on.
using Run = std::function<int()>;

// enqueue puts work into a stream. It returns a CUresult: 0, or why the work is refused. microseconds is the time it takes on the
// fake clock that events read.
int enqueue(void *stream, const std::string &what, const std::vector<Range> &ranges, Run run, double microseconds = 5);

// Gate says whether work whose turn has come is done, waits, or is left out. It is asked again and again.
enum { OPEN, SHUT, LEFT_OUT };
using Gate = std::function<int()>;

// enqueue_all puts one piece of work into several streams, of several devices perhaps: it is done when all have come to it, and its gate is open. None
// may be captured.
int enqueue_all(const std::vector<void *> &streams, const std::string &what, const std::vector<Range> &ranges, Run run,
                double microseconds = 5, Gate gate = nullptr);

// broken is what a device is broken with, 0 for nothing. take_turn counts a setting down, and is true for the call that it names.
int broken(int device);
bool take_turn(const char *key);

// capturing says whether a stream is being captured.
bool capturing(void *stream);

// break_capture does to a stream's capture what waiting for the stream does: it ends in an error. It says whether there was one.
bool break_capture(void *stream);

// stream_device is the device of a stream, -1 if there is no such stream; current_device is that of this thread's context, -1 without one.
int stream_device(void *stream);
int current_device();

// check_range is 0 if a range lies in one live allocation of a device, else a CUresult; it complains with the name of the user.
int check_range(const char *who, int device, const Range &r);

// complain records that a caller broke a rule. A test fails for it.
__attribute__((format(printf, 1, 2))) void complain(const char *format, ...);

// note adds a line to the trace.
__attribute__((format(printf, 1, 2))) void note(const char *format, ...);

// name writes an address or handle as the trace does: a3+16 is in the third allocation, h1+0 in pinned memory, s2 is a stream.
std::string name(uint64_t address);
std::string name(const void *handle);

// setting is a number that the test set, or otherwise.
long long setting(const char *key, long long otherwise);

// count adds to a counter that the test can read.
void count(const char *key, long long by = 1);

} // namespace fakecuda

#pragma GCC visibility pop
