package tune

import (
	"os"
	"path/filepath"

	"github.com/paragon-train/paragon/internal/files/vfs"
	"github.com/paragon-train/paragon/tune/internal/jsonline"
	"github.com/paragon-train/paragon/tune/internal/logfile"
	"github.com/paragon-train/paragon/tune/internal/studydir"
)

// ReadLog calls yield for the events of a study's log, in order. path is the study's folder or the
// log file. What a crash may leave at its end, a line without its end or zeros that stand for
// lines, had no effect and is skipped; any other damage is an error that names the line. Lines may
// end in a carriage return and a newline, as some editors and git write them. ReadLog returns an
// error of yield unchanged.
func ReadLog(path string, yield func(Event) error) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, studydir.LogName)
	}
	_, err := readLog(vfs.OS{}, path, func(e *Event) error { return yield(*e) })
	return err
}

// readLog calls yield for the events of the log at path.
func readLog(fsys vfs.FS, path string, yield func(*Event) error) (logfile.End, error) {
	return logfile.Read(fsys, path, eventDecoder(), yield)
}

// eventDecoder reads lines that appendEvent wrote, without their ends. It keeps names that come
// again.
func eventDecoder() logfile.Decoder[Event] {
	var s jsonline.Scanner
	return func(line []byte) (Event, uint64, error) {
		body, err := logfile.CutSum(line)
		if err != nil {
			return Event{}, 0, err
		}
		s.Reset(body)
		e, err := scanEvent(&s)
		return e, e.Seq, err
	}
}
