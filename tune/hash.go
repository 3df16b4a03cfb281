package tune

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"strconv"

	"github.com/paragon-train/paragon/tune/internal/jsonline"
)

// A decisionHash is a hash of the decisions: the parameters of new trials, the answers to reports,
// the choices of trials to continue. Times, failed attempts and interruptions are not part of it,
// nor are divisions of nodes among trials (EventAllocate), which depend on time; so a search that
// was killed and resumed has the same hash as one that was not, if the reports came in the same
// order.
type decisionHash struct {
	h hash.Hash
	b []byte
}

// begin makes the hash ready, with a version of what it is of.
func (d *decisionHash) begin() {
	d.h = sha256.New()
	_, _ = d.h.Write([]byte("paragon tune decisions 1\n"))
}

// start takes the parameters of a new trial.
func (d *decisionHash) start(e *Event) {
	b := jsonline.AppendInt(d.b[:0], "new ", e.Trial)
	d.write(e.Params.appendJSON(append(b, ' ')))
}

// goOn takes the scheduler's choice of a paused trial.
func (d *decisionHash) goOn(e *Event) {
	b := jsonline.AppendInt(d.b[:0], "go on ", e.Trial)
	b = jsonline.AppendInt(b, " from ", e.Donor)
	b = append(strconv.AppendInt(append(b, ' '), int64(e.Restore), 10), ' ')
	d.write(e.Params.appendJSON(b))
}

// report takes a report with the answer to it.
func (d *decisionHash) report(e *Event) {
	b := jsonline.AppendInt(d.b[:0], "report ", e.Trial)
	b = jsonline.AppendInt(b, " ", e.Step)
	b = appendMetrics(b, e.Metrics)
	d.write(appendDecision(b, &e.Decision))
}

// write takes a line, whose memory is used for the next one.
func (d *decisionHash) write(b []byte) {
	b = append(b, '\n')
	_, _ = d.h.Write(b)
	d.b = b
}

// sum is the hash so far. More can be added after it.
func (d *decisionHash) sum() string { return hexOf(d.h.Sum(nil)) }

// hexOf writes bytes in hexadecimal.
func hexOf(b []byte) string { return hex.EncodeToString(b) }
