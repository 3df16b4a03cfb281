package tune

import (
	"math"
	"strconv"
	"time"

	"github.com/paragon-train/paragon/tune/internal/jsonline"
	"github.com/paragon-train/paragon/tune/internal/logfile"
)

// A line of the log is one JSON object: the fields that its kind has, in a fixed
// order, and "sum", the CRC-32C of the bytes before its comma, in hexadecimal. Since
// there is one way to write each event, a line that is read is a line that would
// be written.

// appendEvent writes the event's line, with its newline.
func appendEvent(b []byte, e *Event) []byte {
	from := len(b)
	b = append(b, `{"seq":`...)
	b = strconv.AppendUint(b, e.Seq, 10)
	b = append(b, `,"time":"`...)
	b = e.Time.UTC().AppendFormat(b, time.RFC3339Nano)
	b = jsonline.AppendInt(b, `","at":`, int(e.At))
	b = append(b, `,"kind":"`...)
	b = append(b, e.Kind...)
	b = append(b, '"')
	switch e.Kind {
	case EventStudy:
		b = appendHeader(b, e.Header)
		b = appendRules(b, e.Rules)
	case EventOpen:
		b = appendRules(b, e.Rules)
	case EventStart:
		b = appendStart(b, e)
	case EventReport:
		b = appendOf(b, e)
		b = jsonline.AppendInt(b, `,"step":`, e.Step)
		b = appendMetrics(b, e.Metrics)
		if e.Kept {
			b = jsonline.AppendInt(b, `,"kept":`, int(e.Bytes))
		}
		b = appendDecision(b, &e.Decision)
	case EventCheckpoint, EventDrop:
		b = appendOf(b, e)
		b = jsonline.AppendInt(b, `,"step":`, e.Step)
		b = jsonline.AppendInt(b, `,"bytes":`, int(e.Bytes))
	case EventEnd:
		b = appendOf(b, e)
		b = jsonline.AppendText(b, `,"outcome":`, string(e.Outcome))
		b = jsonline.AppendText(b, `,"failure":`, string(e.Failure))
		b = jsonline.AppendText(b, `,"error":`, e.Error)
		b = jsonline.AppendTrue(b, `,"retry":true`, e.Retry)
	case EventExhausted:
		b = jsonline.AppendText(b, `,"rule":`, e.Rule)
	case EventHalt:
		b = jsonline.AppendText(b, `,"rule":`, e.Rule)
		b = jsonline.AppendText(b, `,"error":`, e.Error)
	case EventAllocate:
		b = appendAllocation(b, e)
	case EventRequeue, EventAbandon:
		b = jsonline.AppendInts(b, `,"trials":`, e.Trials)
		b = jsonline.AppendTrue(b, `,"fresh":true`, e.Fresh)
		b = jsonline.AppendText(b, `,"rule":`, e.Rule)
	}
	return logfile.AppendSum(b, from)
}

// appendOf writes which attempt an event is of.
func appendOf(b []byte, e *Event) []byte {
	b = jsonline.AppendInt(b, `,"trial":`, e.Trial)
	return jsonline.AppendInt(b, `,"attempt":`, e.Attempt)
}

// appendStart writes a start, with parameters if they are new or have changed.
func appendStart(b []byte, e *Event) []byte {
	b = appendOf(b, e)
	if e.New {
		b = jsonline.AppendText(b, `,"origin":`, string(e.Origin))
	} else {
		b = jsonline.AppendInt(b, `,"donor":`, e.Donor)
		b = jsonline.AppendInt(b, `,"restore":`, e.Restore)
		b = jsonline.AppendInt(b, `,"of":`, e.RestoreOf)
	}
	if e.New || e.Params.Len() > 0 {
		b = append(b, `,"params":`...)
		b = e.Params.appendJSON(b)
	}
	b = jsonline.AppendText(b, `,"rule":`, e.Rule)
	return jsonline.AppendText(b, `,"location":`, e.Location)
}

// appendHeader writes the header of a study.
func appendHeader(b []byte, h *Header) []byte {
	b = jsonline.AppendInt(b, `,"version":`, h.Version)
	b = append(b, `,"name":`...)
	b = jsonline.AppendString(b, h.Name)
	b = jsonline.AppendText(b, `,"metric":`, h.Metric)
	b = append(b, `,"mode":"`...)
	b = append(b, h.Mode.String()...)
	b = append(b, `","seed":`...)
	b = strconv.AppendUint(b, h.Seed, 10)
	b = append(b, `,"space":[`...)
	for i, line := range h.Space {
		if i > 0 {
			b = append(b, ',')
		}
		b = jsonline.AppendString(b, line)
	}
	b = append(b, ']')
	b = jsonline.AppendText(b, `,"suggester":`, h.Suggester)
	b = jsonline.AppendText(b, `,"scheduler":`, h.Scheduler)
	b = jsonline.AppendTexts(b, `,"objectives":`, h.Objectives)
	return jsonline.AppendTexts(b, `,"constraints":`, h.Constraints)
}

// appendRules writes nothing for nil: logs of older versions have no rules.
func appendRules(b []byte, r *Rules) []byte {
	if r == nil {
		return b
	}
	return r.appendJSON(append(b, `,"rules":`...))
}

// appendMetrics writes the metrics of a report.
func appendMetrics(b []byte, m Metrics) []byte {
	b = append(b, `,"metrics":{`...)
	for i, x := range m {
		if i > 0 {
			b = append(b, ',')
		}
		b = jsonline.AppendString(b, x.Name)
		b = append(b, ':')
		b = jsonline.AppendNumber(b, x.Value)
	}
	return append(b, '}')
}

// appendDecision writes nothing for the decision Go.
func appendDecision(b []byte, d *Decision) []byte {
	if d.plain() {
		return b
	}
	b = jsonline.AppendText(b, `,"decision":{"action":`, string(d.Action))
	b = jsonline.AppendText(b, `,"rule":`, d.Rule)
	if d.Rung != 0 {
		b = jsonline.AppendInt(b, `,"rung":`, d.Rung)
	}
	if !math.IsNaN(d.Value) {
		b = append(b, `,"value":`...)
		b = jsonline.AppendNumber(b, d.Value)
	}
	if !math.IsNaN(d.Cutoff) {
		b = append(b, `,"cutoff":`...)
		b = jsonline.AppendNumber(b, d.Cutoff)
	}
	if len(d.Competitors) > 0 {
		b = jsonline.AppendInts(b, `,"competitors":`, d.Competitors)
	}
	if d.Forecast != nil {
		b = d.Forecast.appendJSON(b)
	}
	b = appendDonor(b, d.Action, d.Donor, d.Params)
	if len(d.Others) > 0 {
		b = append(b, `,"others":[`...)
		for i, o := range d.Others {
			if i > 0 {
				b = append(b, ',')
			}
			b = jsonline.AppendInt(b, `{"trial":`, o.Trial)
			b = jsonline.AppendText(b, `,"action":`, string(o.Action))
			b = jsonline.AppendText(b, `,"rule":`, o.Rule)
			b = appendDonor(b, o.Action, o.Donor, o.Params)
			b = append(b, '}')
		}
		b = append(b, ']')
	}
	return append(b, '}')
}

// appendDonor writes what an exploit takes over, and nothing for other actions.
func appendDonor(b []byte, a Action, donor int, p Params) []byte {
	if a != Exploit {
		return b
	}
	b = jsonline.AppendInt(b, `,"donor":`, donor)
	b = append(b, `,"params":`...)
	return p.appendJSON(b)
}

// plain says whether the decision is Go.
func (d *Decision) plain() bool {
	return d.Action == Continue && d.Rule == "" && d.Rung == 0 && math.IsNaN(d.Value) && math.IsNaN(d.Cutoff) && len(d.Competitors) == 0 && d.Forecast == nil && len(d.Others) == 0
}
