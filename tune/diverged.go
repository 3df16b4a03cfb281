package tune

import (
	"errors"
	"fmt"
)

// A DivergedError is the first event at which a log differs from what is recomputed.
type DivergedError struct {
	Seq uint64
	// Got is from the log, Want is recomputed; both as the log writes them.
	Got, Want string
}

func (e *DivergedError) Error() string {
	return fmt.Sprintf("event %d: got %s in the log, want %s by the current configuration", e.Seq, e.Got, e.Want)
}

// isDiverged says whether an error is from a log that differs from what is recomputed.
func isDiverged(err error) bool {
	_, ok := errors.AsType[*DivergedError](err)
	return ok
}
