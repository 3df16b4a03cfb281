package tune

import (
	"hash/crc32"
	"math"
	"strconv"
	"time"
)

// A line of the log is one JSON object: the fields that its kind has, in a fixed
// order, and "sum", the CRC-32C of the bytes before its comma, in hexadecimal. Since
// there is one way to write each event, a line that is read is a line that would
// be written.

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendEvent writes the event's line, with its newline.
func appendEvent(b []byte, e *Event) []byte {
	from := len(b)
	b = append(b, `{"seq":`...)
	b = strconv.AppendUint(b, e.Seq, 10)
	b = append(b, `,"time":"`...)
	b = e.Time.UTC().AppendFormat(b, time.RFC3339Nano)
	b = appendInt(b, `","at":`, int(e.At))
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
		b = appendInt(b, `,"step":`, e.Step)
		b = appendMetrics(b, e.Metrics)
		if e.Kept {
			b = appendInt(b, `,"kept":`, int(e.Bytes))
		}
		b = appendDecision(b, &e.Decision)
	case EventCheckpoint, EventDrop:
		b = appendOf(b, e)
		b = appendInt(b, `,"step":`, e.Step)
		b = appendInt(b, `,"bytes":`, int(e.Bytes))
	case EventEnd:
		b = appendOf(b, e)
		b = appendText(b, `,"outcome":`, string(e.Outcome))
		b = appendText(b, `,"failure":`, string(e.Failure))
		b = appendText(b, `,"error":`, e.Error)
		b = appendTrue(b, `,"retry":true`, e.Retry)
	case EventExhausted:
		b = appendText(b, `,"rule":`, e.Rule)
	case EventHalt:
		b = appendText(b, `,"rule":`, e.Rule)
		b = appendText(b, `,"error":`, e.Error)
	case EventAllocate:
		b = appendAllocation(b, e)
	case EventRequeue, EventAbandon:
		b = appendInts(b, `,"trials":`, e.Trials)
		b = appendTrue(b, `,"fresh":true`, e.Fresh)
		b = appendText(b, `,"rule":`, e.Rule)
	}
	return appendSum(b, from)
}

// appendSum ends the line that begins at from.
func appendSum(b []byte, from int) []byte {
	sum := crc32.Checksum(b[from:], castagnoli)
	b = append(b, `,"sum":"`...)
	for shift := 28; shift >= 0; shift -= 4 {
		b = append(b, hexDigits[sum>>shift&15])
	}
	return append(b, "\"}\n"...)
}

func appendOf(b []byte, e *Event) []byte {
	b = appendInt(b, `,"trial":`, e.Trial)
	return appendInt(b, `,"attempt":`, e.Attempt)
}

func appendStart(b []byte, e *Event) []byte {
	b = appendOf(b, e)
	if e.New {
		b = appendText(b, `,"origin":`, string(e.Origin))
	} else {
		b = appendInt(b, `,"donor":`, e.Donor)
		b = appendInt(b, `,"restore":`, e.Restore)
		b = appendInt(b, `,"of":`, e.RestoreOf)
	}
	if e.New || e.Params.Len() > 0 {
		b = append(b, `,"params":`...)
		b = e.Params.appendJSON(b)
	}
	b = appendText(b, `,"rule":`, e.Rule)
	return appendText(b, `,"location":`, e.Location)
}

func appendHeader(b []byte, h *Header) []byte {
	b = appendInt(b, `,"version":`, h.Version)
	b = append(b, `,"name":`...)
	b = appendString(b, h.Name)
	b = appendText(b, `,"metric":`, h.Metric)
	b = append(b, `,"mode":"`...)
	b = append(b, h.Mode.String()...)
	b = append(b, `","seed":`...)
	b = strconv.AppendUint(b, h.Seed, 10)
	b = append(b, `,"space":[`...)
	for i, line := range h.Space {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, line)
	}
	b = append(b, ']')
	b = appendText(b, `,"suggester":`, h.Suggester)
	b = appendText(b, `,"scheduler":`, h.Scheduler)
	b = appendTexts(b, `,"objectives":`, h.Objectives)
	return appendTexts(b, `,"constraints":`, h.Constraints)
}

// appendTexts writes nothing for an empty list.
func appendTexts(b []byte, key string, list []string) []byte {
	for i, s := range list {
		if i == 0 {
			b = append(append(b, key...), '[')
		} else {
			b = append(b, ',')
		}
		b = appendString(b, s)
	}
	if len(list) > 0 {
		b = append(b, ']')
	}
	return b
}

func appendRules(b []byte, r *Rules) []byte {
	if r == nil {
		return b
	}
	return r.appendJSON(append(b, `,"rules":`...))
}

func appendMetrics(b []byte, m Metrics) []byte {
	b = append(b, `,"metrics":{`...)
	for i, x := range m {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, x.Name)
		b = append(b, ':')
		b = appendNumber(b, x.Value)
	}
	return append(b, '}')
}

// appendDecision writes nothing for the decision Go.
func appendDecision(b []byte, d *Decision) []byte {
	if d.plain() {
		return b
	}
	b = appendText(b, `,"decision":{"action":`, string(d.Action))
	b = appendText(b, `,"rule":`, d.Rule)
	if d.Rung != 0 {
		b = appendInt(b, `,"rung":`, d.Rung)
	}
	if !math.IsNaN(d.Value) {
		b = append(b, `,"value":`...)
		b = appendNumber(b, d.Value)
	}
	if !math.IsNaN(d.Cutoff) {
		b = append(b, `,"cutoff":`...)
		b = appendNumber(b, d.Cutoff)
	}
	if len(d.Competitors) > 0 {
		b = appendInts(b, `,"competitors":`, d.Competitors)
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
			b = appendInt(b, `{"trial":`, o.Trial)
			b = appendText(b, `,"action":`, string(o.Action))
			b = appendText(b, `,"rule":`, o.Rule)
			b = appendDonor(b, o.Action, o.Donor, o.Params)
			b = append(b, '}')
		}
		b = append(b, ']')
	}
	return append(b, '}')
}

func appendDonor(b []byte, a Action, donor int, p Params) []byte {
	if a != Exploit {
		return b
	}
	b = appendInt(b, `,"donor":`, donor)
	b = append(b, `,"params":`...)
	return p.appendJSON(b)
}

// plain says whether the decision is Go.
func (d *Decision) plain() bool {
	return d.Action == Continue && d.Rule == "" && d.Rung == 0 && math.IsNaN(d.Value) && math.IsNaN(d.Cutoff) && len(d.Competitors) == 0 && d.Forecast == nil && len(d.Others) == 0
}

func appendInt(b []byte, key string, n int) []byte {
	b = append(b, key...)
	return strconv.AppendInt(b, int64(n), 10)
}

func appendInts(b []byte, key string, list []int) []byte {
	b = append(b, key...)
	b = append(b, '[')
	for i, n := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(n), 10)
	}
	return append(b, ']')
}

// appendText writes nothing for "".
func appendText(b []byte, key, s string) []byte {
	if s == "" {
		return b
	}
	b = append(b, key...)
	return appendString(b, s)
}

func appendTrue(b []byte, field string, yes bool) []byte {
	if yes {
		return append(b, field...)
	}
	return b
}

// appendNumber writes also what JSON has no numbers for, as texts.
func appendNumber(b []byte, v float64) []byte {
	switch {
	case math.IsNaN(v):
		return append(b, `"NaN"`...)
	case math.IsInf(v, 1):
		return append(b, `"+Inf"`...)
	case math.IsInf(v, -1):
		return append(b, `"-Inf"`...)
	default:
		return strconv.AppendFloat(b, v, 'g', -1, 64)
	}
}
