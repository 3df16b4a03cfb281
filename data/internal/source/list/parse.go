package list

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"strconv"
	"strings"
)

// maxLine is the longest line, in bytes: some thousand objects in one image.
const maxLine = 1 << 20

// parse reads the lines of a list; the names that it gives are those of objects, root and path
// together.
func parse(r io.Reader, root string, found func(name string, labels []float32)) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	var labels []float32
	n := 0
	for lines.Scan() {
		n++
		line := strings.TrimRight(lines.Text(), "\r\n")
		if strings.TrimSpace(line) == "" {
			continue
		}
		name, some, err := parseLine(line, labels[:0])
		if err == nil {
			name, err = join(root, name)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		labels = some
		found(name, labels)
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("line %d has more than %d bytes, want an id, labels and a path, with tabs between them", n+1, maxLine)
	} else if err != nil {
		return err
	}
	return nil
}

// parseLine splits a line, and appends its labels.
func parseLine(line string, labels []float32) (name string, _ []float32, err error) {
	id, rest, _ := strings.Cut(line, "\t")
	at := strings.LastIndexByte(rest, '\t')
	if at < 0 {
		return "", nil, fmt.Errorf("got %.80q, want an id, a label or several, and the path of an image, with tabs between them", line)
	}
	if _, err := strconv.ParseInt(id, 10, 64); err != nil {
		return "", nil, fmt.Errorf("got the id %.40q, want a whole number", id)
	}
	for text := range strings.SplitSeq(rest[:at], "\t") {
		label, err := strconv.ParseFloat(text, 32)
		if err != nil || math.IsNaN(label) || math.IsInf(label, 0) {
			return "", nil, fmt.Errorf("got the label %.40q, want a number", text)
		}
		labels = append(labels, float32(label))
	}
	return rest[at+1:], labels, nil
}

// join is the name of the object that a path below a root means.
func join(root, name string) (string, error) {
	clean := path.Clean(name)
	if name == "" || path.IsAbs(name) || clean == ".." || strings.HasPrefix(clean, "../") || clean == "." {
		return "", fmt.Errorf("got the path %.80q, want one below the folder of the images", name)
	}
	return path.Join(root, clean), nil
}
