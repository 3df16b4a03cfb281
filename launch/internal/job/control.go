package job

import (
	"context"
	"errors"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
)

const (
	// eventsWait is how long the scheduler may hold a request for what is wanted, controlTime how
	// long an answer may take besides that.
	eventsWait  = 10 * time.Second
	controlTime = 5 * time.Second
	// quietTime is how long after a refusal it is told.
	quietTime = 15 * time.Second
	// firstPause comes before a request is made again. It doubles each time, up to lastPause.
	firstPause = 100 * time.Millisecond
	lastPause  = 2 * time.Second
	// overPause is between looks at a job that is over.
	overPause = time.Second
)

// A Control asks the scheduler at addr; credentials are the variables with the job's secrets. The
// error of a request that was refused has control.ErrRefused in its chain.
type Control func(ctx context.Context, addr string, credentials []string, request []byte) ([]byte, error)

// Ask asks the scheduler until it answers, also while it is being started again, or until ctx ends.
// It returns the answer as it came, too.
func Ask(ctx context.Context, carry Control, addr string, credentials []string, q control.Request, into control.Answer) ([]byte, error) {
	once := func() ([]byte, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Duration(q.WaitMillis)*time.Millisecond+controlTime)
		defer cancel()
		return control.Ask(ctx, func(ctx context.Context, request []byte) ([]byte, error) {
			return carry(ctx, addr, credentials, request)
		}, q, into)
	}
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		raw, err := once()
		if err == nil || errors.Is(err, control.ErrRefused) {
			return raw, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, err
		}
	}
}
