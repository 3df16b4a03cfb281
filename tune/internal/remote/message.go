package remote

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"

	"github.com/paragon-train/paragon/internal/member/framing"
)

const (
	// version is that of the messages; both ends must have the same.
	version = 2
	// maxMessage is the longest message.
	maxMessage = 1 << 20
	// maxMetrics is how many metrics a report may have, maxName how long their names may be.
	maxMetrics = 1024
	maxName    = 256
)

// A message is JSON in a frame: one of its fields.
type message struct {
	Hello      *hello      `json:"hello,omitempty"`
	Task       *Task       `json:"task,omitempty"`
	Held       *Held       `json:"held,omitempty"`
	Report     *report     `json:"report,omitempty"`
	Answer     *Answer     `json:"answer,omitempty"`
	Checkpoint *checkpoint `json:"checkpoint,omitempty"`
	Folder     *folder     `json:"folder,omitempty"`
	Written    *written    `json:"written,omitempty"`
	Kept       *struct{}   `json:"kept,omitempty"`
	Ready      *folder     `json:"ready,omitempty"`
	Await      *struct{}   `json:"await,omitempty"`
	Others     *struct{}   `json:"others,omitempty"`
	Done       *Done       `json:"done,omitempty"`
	Bye        *struct{}   `json:"bye,omitempty"`
	Error      *failure    `json:"error,omitempty"`
	// The rest are those of a copy.
	From  *position `json:"from,omitempty"`
	Piece *piece    `json:"piece,omitempty"`
	Whole *struct{} `json:"whole,omitempty"`
}

// A hello is the first message of a connection: see the package's comment for what may follow. One
// whose token is unknown is refused.
type hello struct {
	Version int    `json:"version"`
	Token   string `json:"token"`
	// Rank is the worker's; of one that joined later its number among the workers.
	Rank int `json:"rank"`
	// Host is that of a worker that asks for a slot, and does nothing else; "": it is the
	// worker itself.
	Host string `json:"host,omitempty"`
	// Copy is what a connection for the files of a checkpoint is for; "": it is not one.
	Copy copyKind `json:"copy,omitempty"`
}

// A copyKind says what is copied.
type copyKind string

const (
	// copySave copies the checkpoint that rank 0 saves to the search.
	copySave copyKind = "save"
	// copyRestore copies the checkpoint to go on from to any rank.
	copyRestore copyKind = "restore"
	// copyParts copies nothing: it asks a rank on another host than rank 0's for its parts of
	// checkpoints.
	copyParts copyKind = "parts"
)

// Held is what a worker gets with its slot.
type Held struct {
	// CPUs and GPUs are as those of a Task.
	CPUs []int    `json:"cpus,omitempty"`
	GPUs []string `json:"gpus,omitzero"`
}

// A Task is what a trial's processes are told.
type Task struct {
	Study string `json:"study"`
	Trial int    `json:"trial"`
	// Attempt counts from 1.
	Attempt int             `json:"attempt"`
	Params  json.RawMessage `json:"params"`
	Seed    uint64          `json:"seed"`
	Workers int             `json:"workers"`
	// PerHost is how many workers are on each host, by rank, where the trial's command keeps
	// its state in a folder and the trial has several hosts. 0: all workers share a folder.
	PerHost int `json:"per_host,omitempty"`
	// Folder is the trial's own, on the search's machine.
	Folder string `json:"folder,omitempty"`
	// Marker tells a process whether it has the search's files; nil: it has.
	Marker *Marker `json:"marker,omitempty"`
	// CPUs and GPUs are the process's own: numbers of processors (none: any), and GPUs as
	// CUDA_VISIBLE_DEVICES takes them (null: not said; empty: none).
	CPUs []int    `json:"cpus,omitempty"`
	GPUs []string `json:"gpus,omitzero"`
	// Restore is the checkpoint to go on from; nil: none.
	Restore *Restore `json:"restore,omitempty"`
	// Elastic says that workers come and go: the one that has been there for longest reports
	// and saves checkpoints.
	Elastic bool `json:"elastic,omitempty"`
}

// Leader is the first rank on a rank's host: it makes the folder in which the command of all ranks
// there keeps its state.
func (t *Task) Leader(rank int) int {
	if t.PerHost == 0 {
		return 0
	}
	return rank - rank%t.PerHost
}

// A Marker is a file of the search. A process that finds this text there has the search's files, on
// the same machine or through a shared file system; for others checkpoints are copied.
type Marker struct {
	Path string `json:"path"`
	Text string `json:"text"`
}

// there says whether this machine has the file.
func (m *Marker) there() bool {
	if m == nil {
		return true
	}
	f, err := os.Open(m.Path)
	if err != nil {
		return false
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, int64(len(m.Text))+1))
	return err == nil && string(b) == m.Text
}

// A Restore is a checkpoint to go on from.
type Restore struct {
	Dir  string `json:"dir"`
	Step int    `json:"step"`
	// Donor is the trial that saved it.
	Donor int `json:"donor"`
}

// A report is metrics at a step. It is answered by an Answer.
type report struct {
	Step    int     `json:"step"`
	Metrics numbers `json:"metrics"`
}

// An Answer is what was decided about a report.
type Answer struct {
	Action string `json:"action"`
	Rule   string `json:"rule,omitempty"`
}

// A checkpoint asks where to write that of a step. It is answered by a folder.
type checkpoint struct {
	Step int `json:"step"`
}

// A folder is one of this machine, or "" if files are to be copied.
type folder struct {
	Dir string `json:"dir"`
}

// A written says that a checkpoint is in its folder, or was copied.
type written struct {
	Error string `json:"error,omitempty"`
	// Copied says that the files were copied.
	Copied bool `json:"copied,omitempty"`
}

// Done is how a process ended.
type Done struct {
	// Error is "" if the worker has ended well.
	Error string `json:"error,omitempty"`
	// Class is that of the failure.
	Class string `json:"class,omitempty"`
	// Obeyed says that it ended since an answer told it to.
	Obeyed bool `json:"obeyed,omitempty"`
}

// A failure is the answer to a request that could not be met.
type failure struct {
	Text string `json:"text"`
	// Gone says that a checkpoint is not there any more.
	Gone bool `json:"gone,omitempty"`
}

// numbers are metrics, with those that JSON does not have.
type numbers map[string]float64

// MarshalJSON writes NaN and infinities as texts.
func (n numbers) MarshalJSON() ([]byte, error) {
	m := make(map[string]any, len(n))
	for name, x := range n {
		m[name] = x
		if math.IsNaN(x) || math.IsInf(x, 0) {
			m[name] = strconv.FormatFloat(x, 'g', -1, 64)
		}
	}
	// Marshal sorts the names, so that equal reports have equal texts.
	return json.Marshal(m)
}

// UnmarshalJSON also takes the words that other programs have for NaN and infinities.
func (n *numbers) UnmarshalJSON(b []byte) error {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(b, &m); err != nil {
		return err
	}
	if len(m) > maxMetrics {
		return fmt.Errorf("got %d metrics, want at most %d", len(m), maxMetrics)
	}
	*n = make(numbers, len(m))
	for name, raw := range m {
		if name == "" || len(name) > maxName {
			return fmt.Errorf("metric %.40q has %d bytes, want 1 to %d", name, len(name), maxName)
		}
		var x float64
		if err := json.Unmarshal(raw, &x); err != nil || bytes.Equal(raw, []byte("null")) {
			var word string
			if json.Unmarshal(raw, &word) != nil || raw[0] != '"' {
				return fmt.Errorf("metric %q is %.40s, want a number", name, raw)
			}
			switch word {
			case "NaN":
				x = math.NaN()
			case "+Inf", "Inf", "Infinity":
				x = math.Inf(1)
			case "-Inf", "-Infinity":
				x = math.Inf(-1)
			default:
				return fmt.Errorf("metric %q is %.40q, want a number, NaN, +Inf or -Inf", name, word)
			}
		}
		(*n)[name] = x
	}
	return nil
}

// A wire sends and receives messages on one connection.
type wire struct {
	in  *bufio.Reader
	out io.Writer
}

// newWire is one on a connection.
func newWire(c io.ReadWriter) *wire { return &wire{bufio.NewReaderSize(c, 4096), c} }

// send writes a message with its frame, at once.
func (w *wire) send(m message) error { return framing.WriteJSON(w.out, m, maxMessage) }

// receive returns io.EOF only between messages.
func (w *wire) receive() (message, error) {
	b, err := framing.Read(w.in, nil, maxMessage)
	if err != nil {
		return message{}, err
	}
	return parse(b)
}

// tooLong returns the length of a message that is too long for a frame.
func tooLong(err error) (long *framing.LengthError, ok bool) {
	ok = errors.As(err, &long)
	return long, ok
}

// parse reads a message: exactly one kind of message, with no field that is not known.
func parse(text []byte) (message, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var m message
	if err := d.Decode(&m); err != nil {
		return message{}, fmt.Errorf("message %.80q: %w", bytes.TrimSpace(text), err)
	}
	if rest := bytes.TrimSpace(text[d.InputOffset():]); len(rest) > 0 {
		return message{}, fmt.Errorf("message %.80q: %d bytes after it", bytes.TrimSpace(text), len(rest))
	}
	if k := m.kinds(); k != 1 {
		return message{}, fmt.Errorf("message %.80q has %d kinds, want one", bytes.TrimSpace(text), k)
	}
	return m, nil
}

// kinds counts the fields that are set.
func (m *message) kinds() int {
	n := 0
	for _, there := range []bool{m.Hello != nil, m.Task != nil, m.Held != nil, m.Report != nil, m.Answer != nil, m.Checkpoint != nil, m.Folder != nil,
		m.Written != nil, m.Kept != nil, m.Ready != nil, m.Await != nil, m.Others != nil, m.Done != nil, m.Bye != nil, m.Error != nil,
		m.From != nil, m.Piece != nil, m.Whole != nil} {
		if there {
			n++
		}
	}
	return n
}

// A position is where a copy goes on: Entry entries are there, and Offset bytes of the next one.
type position struct {
	Entry  int   `json:"entry"`
	Offset int64 `json:"offset"`
}

// A piece says what is in the frame that follows: bytes of the archive, with this CRC-32C.
type piece struct {
	Sum uint32 `json:"sum"`
}
