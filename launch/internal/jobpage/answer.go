package jobpage

import (
	"context"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/page"
)

// A Source asks the scheduler of a job: Ask sends q and decodes the answer into into. A refusal of
// the scheduler is an error, too.
type Source interface {
	Ask(ctx context.Context, q control.Request, into control.Answer) (raw []byte, err error)
}

// A member is what makes another State when it changes.
type member struct {
	node  uint64
	state string
	rank  int32
}

// An answered is what the scheduler says at one time.
type answered struct {
	page.Update
	telemetry *control.Telemetry
	events    []page.Event
	workers   page.Members
	servers   page.Members
	members   []member
}
