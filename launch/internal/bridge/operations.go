package bridge

import (
	"context"
	"encoding/json"

	"github.com/paragon-train/paragon/kvstore"
)

// An operation carries out one request. args is the request as it came, with its id and op. It runs
// on a goroutine of its own, and ctx ends with a cancel of the request and with the session. The
// result becomes JSON; a withFile is sent with its descriptor, nil is {}.
type operation func(ctx context.Context, s *session, args json.RawMessage) (any, error)

// operations are the requests by their names.
var operations = map[string]operation{
	"join":    join,
	"state":   state,
	"barrier": barrier,
	"usage":   usageOf,
	"memory":  makeRegion,
	"free":    freeRegion,
	"cancel":  cancelRequest,
	"close":   closeStore,
	"abort":   abortStore,

	"init":     initKeys,
	"push":     exchangeValues("push", true, false),
	"pull":     exchangeValues("pull", false, true),
	"pushpull": exchangeValues("pushpull", true, true),

	"plan":      makePlan,
	"extend":    extendPlan,
	"drop_plan": dropPlan,

	"broadcast":         broadcast,
	"save":              file("save", kvstore.Store.Save),
	"load":              file("load", kvstore.Store.Load),
	"set_optimizer":     setOptimizer,
	"set_compression":   setCompression,
	"set_learning_rate": setLearningRate,

	"sampler": beginSampler,
	"turn":    nextTurn,
	"indices": findIndices,
	"leave":   leave,
	"stopped": stopped,
	"report":  report,

	"tensorboard": writeBoard,

	"table":     makeTable,
	"push_rows": pushRows,
	"pull_rows": pullRows,
}

// urgent are the operations that run beside the most requests that may be under way, so that what
// waits can always be ended.
var urgent = map[string]bool{"cancel": true, "close": true, "abort": true}

// pushes are the operations whose contributions belong to the turn in which Python sent them.
var pushes = map[string]bool{"push": true, "pushpull": true, "push_rows": true}

// inline are the operations that the reader of packets carries out by itself, since they wait for
// nothing: requests behind one of them find it done.
var inline = map[string]bool{"report": true}

// leaves are the operations after which the session ends.
var leaves = map[string]bool{"close": true, "abort": true}

// noResult is the result of an operation that has none.
type noResult struct{}

// arguments reads a request's arguments.
func arguments(args json.RawMessage, into any) error {
	if err := json.Unmarshal(args, into); err != nil {
		return usage("bridge: arguments of a request: %w", err)
	}
	return nil
}
