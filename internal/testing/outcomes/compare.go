package outcomes

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A Record is the outcomes of one version, from seed 0 on.
type Record struct {
	// digests has two bytes for each seed.
	digests []byte
	// others has the digests of seeds whose outcome depends on how long messages between
	// launcher and scheduler take: two things fall together, and either may come first.
	others map[uint64][]uint16
	// texts has the rests of some seeds.
	texts map[uint64][]string
}

// latencies are those that a record is made with besides none.
var latencies = []time.Duration{time.Millisecond, 20 * time.Millisecond, 200 * time.Millisecond}

// The files of a Record in a folder.
const (
	digestsFile = "digests"
	othersFile  = "others.gz"
	textsFile   = "first.txt.gz"
	// changedFile has the texts of the seeds that a later version changed. A record need not have
	// it.
	changedFile = "changed.txt.gz"
)

// ReadRecord reads a record from a folder. The file at further, if it is not empty, has the rests
// of more seeds.
func ReadRecord(folder, further string) (*Record, error) {
	r := &Record{others: make(map[uint64][]uint16), texts: make(map[uint64][]string)}
	var err error
	if r.digests, err = os.ReadFile(filepath.Join(folder, digestsFile)); err != nil {
		return nil, err
	}
	if err := readLines(filepath.Join(folder, othersFile), func(line string) error {
		var seed uint64
		var digest uint16
		_, err := fmt.Sscan(line, &seed, &digest)
		r.others[seed] = append(r.others[seed], digest)
		return err
	}); err != nil {
		return nil, err
	}
	if err := r.readTexts(filepath.Join(folder, textsFile)); err != nil {
		return nil, err
	}
	if err := r.readTexts(filepath.Join(folder, changedFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if further != "" {
		return r, r.readTexts(further)
	}
	return r, nil
}

// readTexts reads the rests of some seeds.
func (r *Record) readTexts(file string) error {
	seed := uint64(0)
	return readLines(file, func(line string) (err error) {
		if number, is := strings.CutPrefix(line, "seed "); is {
			seed, err = strconv.ParseUint(number, 10, 64)
			r.texts[seed] = nil
			return err
		}
		r.texts[seed] = append(r.texts[seed], line)
		return nil
	})
}

// WriteChanged writes the recorded rests of some seeds into a folder, so that the record has them
// from now on.
func (r *Record) WriteChanged(folder string, seeds []uint64) error {
	var texts []string
	for _, seed := range seeds {
		if rests := r.texts[seed]; rests != nil {
			texts = append(texts, fmt.Sprintf("seed %d\n%s\n", seed, strings.Join(rests, "\n")))
		}
	}
	return writeLines(filepath.Join(folder, changedFile), texts)
}

// readLines reads a compressed file line by line.
func readLines(file string, take func(line string) error) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("outcomes: %s: %w", file, err)
	}
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if err := take(lines.Text()); err != nil {
			return fmt.Errorf("outcomes: %s: %q: %w", file, lines.Text(), err)
		}
	}
	return lines.Err()
}

// Seeds is how many seeds the record has.
func (r *Record) Seeds() uint64 { return uint64(len(r.digests) / 2) }

// Has reports whether a seed's outcome is the recorded one, or one that it has when messages take
// another time.
func (r *Record) Has(seed uint64, rests []string) bool {
	digest := digestOf(rests)
	return digest == binary.LittleEndian.Uint16(r.digests[2*seed:]) || slices.Contains(r.others[seed], digest)
}

// Rests are those of a seed's outcome, if the record has their text; else nil.
func (r *Record) Rests(seed uint64) []string { return r.texts[seed] }

// WriteRecord plays so many seeds and writes their record into a folder: the digests of all, and
// the rests of the first ones.
func WriteRecord(folder string, seeds, texts uint64, cores Cores) error {
	digests := make([]byte, 2*seeds)
	first, others := make([]string, min(texts, seeds)), make([]string, seeds)
	All(0, seeds, cores, func(o *Outcome) {
		seed, seen := o.Plan.Seed, []uint16{o.Digest()}
		for _, d := range latencies {
			if x := Play(o.Plan, d, cores).Digest(); !slices.Contains(seen, x) {
				seen = append(seen, x)
				others[seed] += fmt.Sprintln(seed, x)
			}
		}
		binary.LittleEndian.PutUint16(digests[2*seed:], seen[0])
		if seed < uint64(len(first)) {
			first[seed] = fmt.Sprintf("seed %d\n%s\n", seed, strings.Join(o.Rests, "\n"))
		}
	})
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(folder, digestsFile), digests, 0o644),
		writeLines(filepath.Join(folder, othersFile), others), writeLines(filepath.Join(folder, textsFile), first))
}

// writeLines writes a compressed file.
func writeLines(file string, text []string) error {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return err
	}
	for _, t := range text {
		if _, err := io.WriteString(z, t); err != nil {
			return err
		}
	}
	if err := z.Close(); err != nil {
		return err
	}
	return os.WriteFile(file, b.Bytes(), 0o644)
}

// All plays the seeds of a range on all processors, and hands their outcomes over in any order,
// several at a time.
func All(from, to uint64, cores Cores, take func(o *Outcome)) {
	var next atomic.Uint64
	next.Store(from)
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for {
				seed := next.Add(1) - 1
				if seed >= to {
					return
				}
				take(Play(NewPlan(seed), 0, cores))
			}
		})
	}
	group.Wait()
}

// A Difference is a seed whose outcome is not the recorded one.
type Difference struct {
	Plan *Plan
	// Was are the rests before; nil: their text is not recorded.
	Was, Is []string
	record  *Record
}

// Would reports whether the recorded outcome has these rests.
func (d *Difference) Would(rests []string) bool { return d.record.Has(d.Plan.Seed, rests) }

// An Intended difference is one that a later version has by intention.
type Intended struct {
	Name, Reason string
	// Explains reports whether an outcome differs for this reason. Where the text of the
	// recorded one is not known it can make the outcome that was, and ask whether that Would
	// be the recorded one.
	Explains func(d *Difference) bool
}

// A Comparison is what became of comparing outcomes with a record.
type Comparison struct {
	Seeds uint64
	// Explained says how many seeds differ for which reason.
	Explained map[string]int
	// Changed are all seeds that differ, Differing those for no known reason, in order.
	Changed, Differing []uint64
}

// Compare plays the seeds of a range and compares the outcomes with a record.
func (r *Record) Compare(from, to uint64, cores Cores, table []Intended) Comparison {
	c := Comparison{Seeds: to - from, Explained: make(map[string]int)}
	var mu sync.Mutex
	All(from, to, cores, func(o *Outcome) {
		seed := o.Plan.Seed
		if r.Has(seed, o.Rests) {
			return
		}
		d := &Difference{o.Plan, r.texts[seed], o.Rests, r}
		i := slices.IndexFunc(table, func(x Intended) bool { return x.Explains(d) })
		mu.Lock()
		defer mu.Unlock()
		c.Changed = append(c.Changed, seed)
		if i >= 0 {
			c.Explained[table[i].Name]++
		} else {
			c.Differing = append(c.Differing, seed)
		}
	})
	slices.Sort(c.Changed)
	slices.Sort(c.Differing)
	return c
}

// SideBySide shows a seed's plan, its rests before and now, and a mark where they part.
func (r *Record) SideBySide(seed uint64, cores Cores) string {
	o := Play(NewPlan(seed), 0, cores)
	was, is := r.Rests(seed), o.Rests
	var b strings.Builder
	fmt.Fprintln(&b, o.Plan)
	if was == nil {
		fmt.Fprintf(&b, "the rests before are not recorded as text; those of now:\n%s\n", strings.Join(is, "\n"))
		return b.String()
	}
	line := func(list []string, i int) string {
		if i < len(list) {
			return list[i]
		}
		return "-"
	}
	for i := range max(len(was), len(is)) {
		if x, y := line(was, i), line(is, i); x == y {
			fmt.Fprintf(&b, "both   %s\n", x)
		} else {
			fmt.Fprintf(&b, "WAS    %s\nIS     %s\n", x, y)
		}
	}
	return b.String()
}
