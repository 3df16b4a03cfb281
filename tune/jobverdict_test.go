package tune

import "testing"

func TestMemoryIsWhatTheProgramsSayAndNotWhatLaunchSupposes(t *testing.T) {
	for said, want := range map[string]bool{
		"worker 0 | fatal error: runtime: out of memory\nlaunch: worker 0 on localhost failed: exit status 2":                                              true,
		"server 0 | panic: mmap: cannot allocate memory":                                                                                                   true,
		"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20 MiB":                                                                        true,
		"worker 1 | step 3\nlaunch: worker 1 on localhost failed: signal 9 (killed); if nobody did that, the machine may have run out of memory (dmesg)\n": false,
		"": false,
	} {
		if got := ranOutOfMemory(said); got != want {
			t.Errorf("%q: got %v, want %v", said, got, want)
		}
	}
}
