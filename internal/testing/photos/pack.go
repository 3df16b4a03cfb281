package photos

import (
	"archive/tar"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
)

// A File is an image of a folder.
type File struct {
	// Path begins with the folder's.
	Path string
	// Name is the path in the folder, with slashes.
	Name  string
	Label int
}

// Files lists the images of a folder that Make has made in the order in which a folder is read.
func Files(folder string) ([]File, error) {
	// The classes come in the order of their names.
	classes, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var files []File
	label := 0
	for _, c := range classes {
		if !c.IsDir() {
			continue
		}
		entries, err := os.ReadDir(filepath.Join(folder, c.Name()))
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			files = append(files, File{filepath.Join(folder, c.Name(), e.Name()), c.Name() + "/" + e.Name(), label})
		}
		label++
	}
	return files, nil
}

// recordMagic begins each part of a RecordIO file. The number behind it has the part's place in the
// record in its upper three bits.
const recordMagic = 0xced7230a

// Places of a part in a record.
const (
	whole = iota
	first
	middle
	last
)

// Record packs a folder as MXNet's RecordIO: path, which ends in .rec, and beside it the index,
// which ends in .idx.
func Record(path, folder string) error {
	files, err := Files(folder)
	if err != nil {
		return err
	}
	var rec []byte
	var idx strings.Builder
	for i, f := range files {
		image, err := os.ReadFile(f.Path)
		if err != nil {
			return err
		}
		fmt.Fprintf(&idx, "%d\t%d\n", i, len(rec))
		// The header of a payload: no further labels, the label, and two numbers of the
		// image.
		payload := binary.LittleEndian.AppendUint32(nil, 0)
		payload = binary.LittleEndian.AppendUint32(payload, math.Float32bits(float32(f.Label)))
		payload = binary.LittleEndian.AppendUint64(payload, uint64(i))
		payload = binary.LittleEndian.AppendUint64(payload, 0)
		rec = appendRecord(rec, append(payload, image...))
	}
	return errors.Join(os.WriteFile(path, rec, 0o644), os.WriteFile(strings.TrimSuffix(path, ".rec")+".idx", []byte(idx.String()), 0o644))
}

// appendRecord appends a record in parts: it is cut where the magic number stands at a multiple of
// four bytes, which is left out there.
func appendRecord(rec, payload []byte) []byte {
	var parts [][]byte
	begin := 0
	for at := 0; at+4 <= len(payload); at += 4 {
		if binary.LittleEndian.Uint32(payload[at:]) == recordMagic {
			parts = append(parts, payload[begin:at])
			begin = at + 4
		}
	}
	parts = append(parts, payload[begin:])
	for i, part := range parts {
		place := middle
		switch {
		case len(parts) == 1:
			place = whole
		case i == 0:
			place = first
		case i == len(parts)-1:
			place = last
		}
		rec = binary.LittleEndian.AppendUint32(rec, recordMagic)
		rec = binary.LittleEndian.AppendUint32(rec, uint32(place)<<29|uint32(len(part)))
		rec = append(append(rec, part...), make([]byte, -len(part)&3)...)
	}
	return rec
}

// Tars packs a folder as so many tar files, shard-000000.tar and on, in dir, as WebDataset names
// their members: an image and its class under one key.
func Tars(dir, folder string, shards int) error {
	files, err := Files(folder)
	if err != nil {
		return err
	}
	for s := range shards {
		if err := writeTar(filepath.Join(dir, fmt.Sprintf("shard-%06d.tar", s)), files[s*len(files)/shards:(s+1)*len(files)/shards]); err != nil {
			return err
		}
	}
	return nil
}

func writeTar(path string, files []File) (err error) {
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	w := tar.NewWriter(out)
	defer func() { err = errors.Join(err, w.Close(), out.Close()) }()
	for _, f := range files {
		image, err := os.ReadFile(f.Path)
		if err != nil {
			return err
		}
		key := strings.TrimSuffix(f.Name, filepath.Ext(f.Name))
		for _, m := range []struct {
			ending  string
			content []byte
		}{{".jpg", image}, {".cls", fmt.Append(nil, f.Label)}} {
			if err := w.WriteHeader(&tar.Header{Name: key + m.ending, Mode: 0o644, Size: int64(len(m.content))}); err != nil {
				return err
			}
			if _, err := w.Write(m.content); err != nil {
				return err
			}
		}
	}
	return nil
}
