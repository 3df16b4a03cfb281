package metrics

import (
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// An Experiment is what TensorBoard's HPARAMS view knows of a search before its first trial. It
// lies in a file of its own in the search's folder; each trial is a run, in a folder below, which
// begins and ends a session.
type Experiment struct {
	Name    string
	Created time.Time
	Params  []HParam
	// Metrics are tags of scalars of the sessions: the columns of the view.
	Metrics []string
}

// An HParam is one hyper-parameter. One name stands once, also if several conditional parameters
// share it.
type HParam struct {
	Name string
	Kind HParamKind
	// Values are all that it can have: float64, string or bool, as Kind says. nil: a number
	// from Low to High, or anything if these are not finite or the kind is another.
	Values    []any
	Low, High float64
}

// An HParamKind is the type of a hyper-parameter, as api.proto numbers it.
type HParamKind uint8

// The kinds.
const (
	HParamString HParamKind = 1
	HParamBool   HParamKind = 2
	HParamNumber HParamKind = 3
)

// An HParamValue is what a trial has for a hyper-parameter: a float64, string or bool. A trial has
// none for a parameter whose condition does not hold.
type HParamValue struct {
	Name  string
	Value any
}

// Numbers of the fields, as TensorBoard's plugin_data.proto and api.proto and protobuf's
// struct.proto have them.
const (
	hparamsExperiment = 2
	hparamsStart      = 3
	hparamsEnd        = 4

	experimentCreated = 3
	experimentParams  = 4
	experimentMetrics = 5
	experimentName    = 6

	paramName     = 1
	paramType     = 4
	paramDiscrete = 5
	paramInterval = 6
	paramDiffers  = 7
	intervalLow   = 1
	intervalHigh  = 2

	metricName = 1
	nameTag    = 2

	startParams = 1
	startTime   = 5
	endStatus   = 1
	endTime     = 2
	mapKey      = 1
	mapValue    = 2

	statusSuccess = 1
	statusFailure = 2

	valueNumber = 2
	valueString = 3
	valueBool   = 4
	listValues  = 1
)

// AddExperiment writes the record of a search. TensorBoard takes the first one that it finds.
func (e *EventFile) AddExperiment(now time.Time, x Experiment) error {
	var b []byte
	if !x.Created.IsZero() {
		b = appendDouble(b, experimentCreated, seconds(x.Created))
	}
	for _, p := range x.Params {
		b = appendBytes(b, experimentParams, appendParam(nil, p))
	}
	for _, tag := range x.Metrics {
		b = appendBytes(b, experimentMetrics, appendBytes(nil, metricName, appendString(nil, nameTag, tag)))
	}
	if x.Name != "" {
		b = appendString(b, experimentName, x.Name)
	}
	return e.addHParams(now, "experiment", hparamsExperiment, b)
}

// BeginSession writes the parameters of a trial. Of several records in a folder TensorBoard takes
// the first.
func (e *EventFile) BeginSession(now time.Time, params []HParamValue) error {
	var b []byte
	for _, p := range params {
		entry := appendString(nil, mapKey, p.Name)
		entry = appendBytes(entry, mapValue, appendHParamValue(nil, p.Value))
		b = appendBytes(b, startParams, entry)
	}
	return e.addHParams(now, "session_start_info", hparamsStart, appendDouble(b, startTime, seconds(now)))
}

// EndSession writes that a trial has ended for good, and whether it failed. Of several records in a
// folder TensorBoard takes the first.
func (e *EventFile) EndSession(now time.Time, failed bool) error {
	status := uint64(statusSuccess)
	if failed {
		status = statusFailure
	}
	return e.addHParams(now, "session_end_info", hparamsEnd, appendDouble(appendVarint(nil, endStatus, status), endTime, seconds(now)))
}

// addHParams writes a record of the hparams plugin. The plugin reads the metadata; the tensor is an
// empty one, as TensorBoard's own writer has it.
func (e *EventFile) addHParams(now time.Time, tag string, field protowire.Number, message []byte) error {
	tensor := appendVarint(nil, tensorType, tensorFloat)
	tensor = appendBytes(tensor, tensorShape, appendBytes(nil, shapeDim, nil))
	return e.add(appendValue(appendEvent(nil, now, 0), pluginValue("_hparams_/"+tag, hparamsPlugin, appendBytes(nil, field, message), tensor)))
}

func appendParam(b []byte, p HParam) []byte {
	b = appendString(b, paramName, p.Name)
	b = appendVarint(b, paramType, uint64(p.Kind))
	differs := len(p.Values) != 1
	switch {
	case p.Values != nil:
		var list []byte
		for _, v := range p.Values {
			list = appendBytes(list, listValues, appendHParamValue(nil, v))
		}
		b = appendBytes(b, paramDiscrete, list)
	case p.Kind == HParamNumber && isFinite(p.Low) && isFinite(p.High):
		b = appendBytes(b, paramInterval, appendNonZero(appendNonZero(nil, intervalLow, p.Low), intervalHigh, p.High))
		differs = p.Low != p.High
	}
	if differs {
		b = appendVarint(b, paramDiffers, 1)
	}
	return b
}

// appendHParamValue appends a google.protobuf.Value.
func appendHParamValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case float64:
		return appendDouble(b, valueNumber, v)
	case bool:
		return appendVarint(b, valueBool, protowire.EncodeBool(v))
	case string:
		return appendString(b, valueString, v)
	}
	return appendString(b, valueString, fmt.Sprint(v))
}

// appendNonZero leaves a zero out, as protobuf does with a field of its default.
func appendNonZero(b []byte, field protowire.Number, x float64) []byte {
	if x == 0 {
		return b
	}
	return appendDouble(b, field, x)
}

func isFinite(x float64) bool { return math.Abs(x) <= math.MaxFloat64 }
