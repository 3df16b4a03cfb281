package shard

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// check checks all about a contribution that does not depend on the shard's state. It runs before
// the mutex is taken, because looking through indices takes as long as adding them, and after it
// nothing about the payload can be wrong: what is held in a slot is added without another look.
//
// Everything here comes from a peer. A number that is not refused may be multiplied, divided by and
// used as an index later, so comparisons are written such that NaN fails them.
func (cfg *Config) check(c *Contribution) error {
	if len(c.Contributors) > 0 {
		if err := cfg.checkContributors(c); err != nil {
			return err
		}
	} else {
		if err := cfg.checkNumbers("push", c.Seq, c.Weight, c.Examples); err != nil {
			return err
		}
	}
	if err := cfg.checkStep(c); err != nil {
		return err
	}
	switch cfg.Form {
	case wire.FormRows:
		return cfg.checkRows(c)
	case wire.FormOpen:
		return cfg.checkOpen(c)
	}
	if !(c.Norm >= 0) || c.Norm > math.MaxFloat64 || c.Norm != 0 && !c.Judged {
		return cfg.refuse(wire.CodeMalformed, "push: got norm %v, judged: %v; want a finite number, at least 0, and 0 unless judged", c.Norm, c.Judged)
	}
	if c.Rows != 0 {
		return cfg.refuse(wire.CodeUnsupported, "push: got rows, but the key is dense")
	}
	if _, _, err := PayloadSize(c.Codec, cfg.values()); err != nil {
		return cfg.refuse(wire.CodeUnsupported, "push: %v", err)
	}
	if c.Codec == wire.Codec2Bit && !(c.Threshold > 0 && c.Threshold <= maxWeight) {
		return cfg.refuse(wire.CodeMalformed, "push: got threshold %v, want a finite number above 0", c.Threshold)
	}
	if c.Loan != nil && (c.Codec != wire.CodecFloat32 || len(c.Loan.Values()) != cfg.values() || c.Data != nil || len(c.Contributors) > 0) {
		return cfg.refuse(wire.CodeSize, "push: got a loan of %d values in codec %d, of %d contributors, want %d in codec %d of one", len(c.Loan.Values()), c.Codec, len(c.Contributors), cfg.values(), wire.CodecFloat32)
	}
	if c.Data == nil && c.Loan == nil && cfg.values() > 0 {
		return cfg.refuse(wire.CodeSize, "push: got no values, want %d", cfg.values())
	}
	if c.Codec == wire.CodecTopK && cfg.values() > 0 {
		if err := f32.CheckTopK(c.Data.Bytes(c.Size), cfg.values()); err != nil {
			return cfg.refuse(wire.CodeMalformed, "push: topk: %v", err)
		}
	}
	return nil
}

// checkNumbers checks what each contributor has of its own. Sequence numbers begin with 1, because
// 0 marks a slot that is empty. A weight must be finite: one that is not would make every later sum
// of its round so, and with it the value.
func (cfg *Config) checkNumbers(what string, seq uint64, weight float32, examples uint64) error {
	if seq == 0 {
		return cfg.refuse(wire.CodeMalformed, "%s: got sequence number 0, want them from 1", what)
	}
	if !(weight >= 0) || weight > maxWeight {
		return cfg.refuse(wire.CodeMalformed, "%s: got weight %v, want a finite number, at least 0", what, weight)
	}
	if examples > maxExamples {
		return cfg.refuse(wire.CodeMalformed, "%s: got %d examples, want at most %d", what, examples, maxExamples)
	}
	return nil
}

// checkContributors checks all about a contribution of several that does not depend on the shard's
// state.
func (cfg *Config) checkContributors(c *Contribution) error {
	if c.Seq != 0 || c.Weight != 0 || c.Examples != 0 || c.Counted || c.Judged || c.Norm != 0 || c.Step.Micro != 0 || c.Step.MicroSqr != 0 {
		return cfg.refuse(wire.CodeMalformed, "push: got %d contributors and a sequence number, a weight or norms beside them, want none: each contributor has its own", len(c.Contributors))
	}
	if cfg.HasRows() {
		return cfg.refuse(wire.CodeUnsupported, "push: got %d contributors of rows, want each to push its own", len(c.Contributors))
	}
	for i := range c.Contributors {
		x := &c.Contributors[i]
		what := fmt.Sprintf("push: contributor %d (node %d)", i, x.Node)
		if i > 0 && x.Node <= c.Contributors[i-1].Node {
			return cfg.refuse(wire.CodeMalformed, "%s: comes after node %d, want them in rising order, each once", what, c.Contributors[i-1].Node)
		}
		if err := cfg.checkNumbers(what, x.Seq, x.Weight, x.Examples); err != nil {
			return err
		}
		if !(x.Sqr >= 0) || !c.Step.Measure && x.Sqr != 0 {
			return cfg.refuse(wire.CodeMalformed, "%s: got the squared norm %v, measured: %v; want at least 0, and 0 unless measured", what, x.Sqr, c.Step.Measure)
		}
		if err := cfg.checkMicro(what, c.Step.Measure, x.Micro, x.MicroSqr); err != nil {
			return err
		}
	}
	if _, ok := contributorOf(c.Contributors, c.Node); !ok {
		return cfg.refuse(wire.CodeMalformed, "push: node %d is not among its %d contributors", c.Node, len(c.Contributors))
	}
	return nil
}

// contributorOf finds a node in a list in rising order. The order is checked when the contribution
// comes; it also tells that no node is named twice.
func contributorOf(list []wire.Contributor, node uint64) (int, bool) {
	return slices.BinarySearchFunc(list, node, func(x wire.Contributor, node uint64) int { return cmp.Compare(x.Node, node) })
}

// checkStep checks the numbers of a contribution's step. The zero Step asks for nothing and is
// always right. A codec that holds only a part of the gradient cannot be measured: its squares
// would be those of what is left.
func (cfg *Config) checkStep(c *Contribution) error {
	st := &c.Step
	if *st == (wire.Step{}) {
		return nil
	}
	r := &st.Rate
	switch {
	case !(r.Factor >= 0 && r.Factor <= wire.MaxFactor) || r.Factor != 0 && !r.Scaled:
		return cfg.refuse(wire.CodeMalformed, "push: got learning-rate factor %v, scaled: %v; want 0 to %d, and 0 unless scaled", r.Factor, r.Scaled, wire.MaxFactor)
	case !(r.Progress >= 0 && r.Progress <= wire.MaxProgress) || r.Progress != 0 && !r.ByProgress:
		return cfg.refuse(wire.CodeMalformed, "push: got progress %v, by progress: %v; want 0 to %d, and 0 unless by progress", r.Progress, r.ByProgress, uint64(wire.MaxProgress))
	case !(r.Gain >= 0 && r.Gain <= wire.MaxFactor):
		return cfg.refuse(wire.CodeMalformed, "push: got gain %v, want 0 to %d", r.Gain, wire.MaxFactor)
	}
	if err := cfg.checkMicro("push", st.Measure, st.Micro, st.MicroSqr); err != nil {
		return err
	}
	switch {
	case !st.Measure:
		return nil
	case cfg.Form != wire.FormDense:
		return cfg.refuse(wire.CodeUnsupported, "push: got a measured push; the norms of keys of rows are not measured")
	case cfg.Rule == wire.RuleAverage:
		return cfg.refuse(wire.CodeUnsupported, "push: got a measured push; the norms of averaged keys are not measured")
	case c.Codec > wire.CodecBFloat16:
		return cfg.refuse(wire.CodeUnsupported, "push: got a measured push in codec %d, which does not hold the gradient; measure with float32 (0), float16 (1) or bfloat16 (2)", c.Codec)
	}
	return nil
}

// checkMicro checks what a contributor says of its micro-gradients. With one micro-gradient or none
// the squares are those of the gradient itself, which are taken here.
func (cfg *Config) checkMicro(what string, measure bool, micro uint32, sqr float64) error {
	switch {
	case micro > wire.MaxMicro || micro != 0 && !measure:
		return cfg.refuse(wire.CodeMalformed, "%s: got %d micro-gradients, measured: %v; want at most %d, and 0 unless measured", what, micro, measure, wire.MaxMicro)
	case !(sqr >= 0) || sqr != 0 && micro <= 1:
		return cfg.refuse(wire.CodeMalformed, "%s: got %v as the squared norms of %d micro-gradients, want at least 0, and 0 unless there are several", what, sqr, micro)
	}
	return nil
}

// checkRows checks a contribution to a shard of rows. Its row numbers must increase, so that each
// comes once: a row that came twice would be read before and written after by the same pass of the
// optimizer, and one of its gradients would be lost.
func (cfg *Config) checkRows(c *Contribution) error {
	if c.Codec != wire.CodecFloat32 {
		return cfg.refuse(wire.CodeUnsupported, "push rows: got codec %d, want float32", c.Codec)
	}
	numRows := cfg.numRows()
	if c.Rows < 0 || c.Rows > numRows || c.Rows > 0 && c.Data == nil {
		return cfg.refuse(wire.CodeSize, "push rows: got %d rows, want at most %d, with their values", c.Rows, numRows)
	}
	if c.Rows == 0 {
		return nil
	}
	last := int64(-1)
	for i, row := range c.Data.Int64s(c.Rows) {
		if row <= last || row >= int64(numRows) {
			return cfg.refuse(wire.CodeMalformed, "push rows: rows[%d]: got row %d after %d, want increasing numbers below %d", i, row, last, numRows)
		}
		last = row
	}
	return nil
}

// checkOpen checks a contribution to a shard of an open vocabulary. Its IDs must increase, as
// unsigned numbers: IDs are hashes more often than not, and half of them are negative as int64.
// Whether a row exists does not matter here.
func (cfg *Config) checkOpen(c *Contribution) error {
	if c.Codec != wire.CodecFloat32 {
		return cfg.refuse(wire.CodeUnsupported, "push rows: got codec %d, want float32", c.Codec)
	}
	if c.Rows < 0 || c.Rows > wire.MaxPayload/8 || c.Rows > 0 && c.Data == nil {
		return cfg.refuse(wire.CodeSize, "push rows: got %d rows, want at most %d, with their values", c.Rows, wire.MaxPayload/8)
	}
	if c.Rows == 0 {
		return nil
	}
	ids := c.Data.Int64s(c.Rows)
	if i := firstUnsorted(ids); i > 0 {
		return cfg.refuse(wire.CodeMalformed, "push rows: rows[%d]: got ID %d after %d, want increasing IDs, compared as unsigned numbers", i, uint64(ids[i]), uint64(ids[i-1]))
	}
	return nil
}

// firstUnsorted returns the first index of an ID that is not larger than the one before, or 0.
func firstUnsorted(ids []int64) int {
	for i := 1; i < len(ids); i++ {
		if uint64(ids[i]) <= uint64(ids[i-1]) {
			return i
		}
	}
	return 0
}
