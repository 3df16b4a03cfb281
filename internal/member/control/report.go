package control

import (
	"errors"
	"fmt"
	"net"
)

// maxReport bounds the JSON of a Report.
const maxReport = 64 << 10

// A Report is one line that a scheduler writes to its launcher, behind the first one, which is the
// address that it listens on. Exactly one of its fields is set.
type Report struct {
	// Present is a node that has registered while the job is forming, Absent one that is gone again.
	Present *Presence `json:"present,omitempty"`
	Absent  *Presence `json:"absent,omitempty"`
	// Running says that the job is complete.
	Running bool `json:"running,omitempty"`
	// Failed is why the job failed.
	Failed *Failure `json:"failed,omitempty"`
	// Adaptation is the newest one of a job that has ended.
	Adaptation *Adaptation `json:"adaptation,omitempty"`
	// Metrics is the address at which Prometheus may ask for the job's metrics.
	Metrics string `json:"metrics,omitempty"`
	// Stopping: the job stops with a checkpoint (OpCheckpointStop).
	Stopping *Stopping `json:"stopping,omitempty"`
	// Stopped is what came of that, as a worker says: first of all that a checkpoint is
	// complete.
	Stopped *Stopped `json:"stopped,omitempty"`
}

// A Stopping says that the job stops with a checkpoint.
type Stopping struct {
	Reason string `json:"reason"` // who asked for it, for people
	// LimitMillis is how long that may take; 0: the launcher knows.
	LimitMillis int64 `json:"limit_ms,omitempty"`
}

// A Stopped is what the job can go on from.
type Stopped struct {
	// Steps is after how many steps the checkpoint was written that is complete; 0: there is none.
	Steps uint64 `json:"steps"`
	// Reason is why there is none, for people.
	Reason string `json:"reason,omitempty"`
}

// A Presence is a node that wants to be in the job.
type Presence struct {
	Role    string `json:"role"`
	Rank    int    `json:"rank"`              // that it wants; -1: any
	Process uint32 `json:"process,omitempty"` // 0: it was started by hand
}

// Line is the report as a line, without its end.
func (r Report) Line() (string, error) {
	if f := r.Failed; f != nil && f.Code != "" { // what people wrote may be long
		c := *f
		c.Text, c.Cause.Text = clip(c.Text, MaxReason), clip(c.Cause.Text, MaxReason)
		c.Waiting = clipList(c.Waiting, maxReport/4)
		r.Failed = &c
	}
	if r.Stopping != nil {
		r.Stopping = &Stopping{clip(r.Stopping.Reason, MaxReason), r.Stopping.LimitMillis}
	}
	if r.Stopped != nil {
		r.Stopped = &Stopped{r.Stopped.Steps, clip(r.Stopped.Reason, MaxReason)}
	}
	if err := r.check(); err != nil {
		return "", err
	}
	b, err := encode("report", r)
	if err == nil && len(b) > maxReport {
		err = fmt.Errorf("control: a report of %d bytes, want at most %d", len(b), maxReport)
	}
	return string(b), err
}

// DecodeReport reads a line.
func DecodeReport(line []byte) (Report, error) {
	var r Report
	if err := decode("report", line, maxReport, &r); err != nil {
		return Report{}, err
	}
	return r, r.check()
}

func (r *Report) check() error {
	set := 0
	for _, p := range []*Presence{r.Present, r.Absent} {
		if p == nil {
			continue
		}
		set++
		if p.Role != Worker && p.Role != Server {
			return fmt.Errorf("control: report: role %q: want worker or server", p.Role)
		}
		if p.Rank < -1 || p.Rank > maxRank {
			return fmt.Errorf("control: report: rank %d, want -1 to %d", p.Rank, maxRank)
		}
	}
	if r.Running {
		set++
	}
	if r.Failed != nil {
		set++
		if err := r.Failed.check("report"); err != nil {
			return err
		}
	}
	if r.Adaptation != nil {
		set++
		if err := r.Adaptation.check("report"); err != nil {
			return err
		}
	}
	if r.Metrics != "" {
		set++
		if _, port, err := net.SplitHostPort(r.Metrics); err != nil || port == "" || port == "0" || len(r.Metrics) > MaxHostName {
			return fmt.Errorf("control: report: metrics at %q: want host:port", r.Metrics)
		}
	}
	if s := r.Stopping; s != nil {
		if set++; s.LimitMillis < 0 || s.LimitMillis > maxNoticeMillis {
			return fmt.Errorf("control: report: stopping: limit_ms %d, want 0 to %d", s.LimitMillis, maxNoticeMillis)
		}
	}
	if r.Stopped != nil {
		set++
	}
	if set != 1 {
		return errors.New("control: report: want one of present, absent, running, failed, adaptation, metrics, stopping and stopped")
	}
	return nil
}

// clipList leaves out the end of a list that has more bytes.
func clipList(list []string, most int) []string {
	for i, s := range list {
		if most -= len(s); most < 0 {
			return append(list[:i:i], fmt.Sprintf("%d more", len(list)-i))
		}
	}
	return list
}
