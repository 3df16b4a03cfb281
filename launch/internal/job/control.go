package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// ErrRefused is in the chain of errors of requests that the scheduler refused: asking again would not help.
var ErrRefused = errors.New("refused")

// ErrLater is in the chain, too, of errors of requests that may be granted a moment later.
var ErrLater = errors.New("not yet")

// A Request is what launch asks of the scheduler, as JSON.
type Request struct {
	Op         string `json:"op"` // status, add, remove, failed, lost, left, stop, events, why, add-server, remove-server or server-failed
	Host       string `json:"host,omitempty"`
	Slots      int    `json:"slots,omitempty"`  // of add: workers that the host takes; 0: one
	Rank       int    `json:"rank,omitempty"`   // of remove-server and server-failed
	PID        int    `json:"pid,omitempty"`    // of lost and left: the process that ended
	Place      string `json:"place,omitempty"`  // of lost: as which it was started, "worker/1"; its number may be that of a shell
	Reason     string `json:"reason,omitempty"` // of failed: why the host cannot take part; of lost: how the process ended
	After      uint64 `json:"after,omitempty"`  // of events: number of the last one that is known
	WaitMillis uint32 `json:"wait_ms,omitempty"`
}

// The actions of events.
const (
	actionAddQueued     = "ADD_QUEUED"
	actionAdded         = "ADDED"
	actionRemovalQueued = "REMOVAL_QUEUED"
	actionRemoved       = "REMOVED"
	actionFailed        = "FAILED"
	actionLost          = "LOST"
	actionLeaving       = "LEAVING" // a worker leaves, others stay on its host
	actionLeft          = "LEFT"
	actionRanks         = "RANKS" // workers have other ranks now; of no host

	actionServerQueued  = "SERVER_QUEUED"
	actionServerAdded   = "SERVER_ADDED"
	actionServerRemoved = "SERVER_REMOVED"
	actionServerFailed  = "SERVER_FAILED"
)

// An Event is something that happened to a host of the job. Events are numbered from 1 on.
type Event struct {
	Number uint64 `json:"number"`
	Time   int64  `json:"time_ns"` // since 1970
	Action string `json:"action"`
	Host   string `json:"host"`
	Slots  int    `json:"slots"` // of ADD_QUEUED
	Role   string `json:"role"`  // of ADDED, LEAVING and LEFT: worker; of LOST: worker or server
	PID    int    `json:"pid"`   // of ADDED, LEAVING, LEFT and LOST: the process's, as its host numbers them
	Rank   int    `json:"rank"`  // of a server that comes or goes as asked
	Reason string `json:"reason"`
}

type eventsAnswer struct {
	Events []Event `json:"events"`
}

const (
	eventsWait  = 10 * time.Second // how long the scheduler may hold a request for events
	controlTime = 5 * time.Second  // for an answer, besides that
	quietTime   = 15 * time.Second // from a refusal until it is told
	firstPause  = 100 * time.Millisecond
	lastPause   = 2 * time.Second
)

// A Control asks the scheduler at addr; credentials are the variables with the job's secrets. The error of a request that was refused
// has ErrRefused in its chain.
type Control func(ctx context.Context, addr string, credentials []string, request []byte) ([]byte, error)

// ask asks once. A refusal that the scheduler explains comes with its answer.
func (c Control) ask(ctx context.Context, addr string, credentials []string, q Request) ([]byte, error) {
	body, err := json.Marshal(q)
	if err != nil {
		return nil, fmt.Errorf("launch: ask the scheduler: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(q.WaitMillis)*time.Millisecond+controlTime)
	defer cancel()
	answer, err := c(ctx, addr, credentials, body)
	if err != nil {
		return nil, err
	}
	var done struct {
		Error string `json:"error"`
		Again bool   `json:"again"`
	}
	if err := json.Unmarshal(answer, &done); err != nil {
		return nil, fmt.Errorf("launch: %s: the scheduler answered %.100q: %w", q.Op, answer, err)
	}
	if done.Error != "" && done.Again {
		return answer, fmt.Errorf("%w: %w: %s", ErrRefused, ErrLater, done.Error)
	}
	if done.Error != "" {
		return answer, fmt.Errorf("%w: %s", ErrRefused, done.Error)
	}
	return answer, nil
}

// Ask asks the scheduler until it answers, also while it is being started again, or until ctx ends.
func Ask(ctx context.Context, control Control, addr string, credentials []string, q Request) ([]byte, error) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		answer, err := control.ask(ctx, addr, credentials, q)
		if err == nil || errors.Is(err, ErrRefused) {
			return answer, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

func (r *run) ask(ctx context.Context, q Request) ([]byte, error) {
	return Ask(ctx, r.cfg.Elastic.Control, r.addr, r.controls, q)
}

// follow waits for the job to run, then hands over the scheduler's events in their order until ctx ends.
func (r *run) follow(ctx context.Context, to chan<- Event) {
	select {
	case <-r.formed.done:
	case <-ctx.Done():
		return
	}
	for after, pause := uint64(0), false; ctx.Err() == nil; {
		if pause { // whoever answers at once that nothing happened is not asked at once again
			select {
			case <-time.After(firstPause):
			case <-ctx.Done():
				return
			}
		}
		answer, err := r.ask(ctx, Request{Op: "events", After: after, WaitMillis: uint32(eventsWait / time.Millisecond)})
		var got eventsAnswer
		if err == nil {
			err = json.Unmarshal(answer, &got)
		}
		if err != nil {
			select { // the job may be about to end
			case <-time.After(quietTime):
			case <-ctx.Done():
			}
			if ctx.Err() == nil {
				r.cfg.Logger.Error(fmt.Sprintf("launch: follow the changes of the job: %v; hosts can no longer join or leave", err))
			}
			return
		}
		pause = len(got.Events) == 0
		for _, e := range got.Events {
			if e.Number <= after {
				continue
			}
			after = e.Number
			select {
			case to <- e:
			case <-ctx.Done():
				return
			}
		}
	}
}
