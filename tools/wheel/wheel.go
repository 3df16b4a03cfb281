package main

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/paragon-train/paragon/version"
)

// A file is an entry of the wheel.
type file struct {
	name string
	text []byte
	mode fs.FileMode // 0: 0644
}

// maxSize is the largest wheel: pip downloads all of it.
const maxSize = 20_000_000

// binaryName is where paragon/_binary.py looks for launch.
const binaryName = importName + "/bin/launch"

// tags are the platforms of an architecture, as the names of wheels spell them. The binary needs no
// C library: both of glibc's and musl's systems have it.
func tags(arch string) []string {
	a := architectures[arch].tag
	return []string{"manylinux_2_17_" + a, "manylinux2014_" + a, "musllinux_1_1_" + a}
}

// wheel writes the wheel of an architecture into a folder, and returns its name and size.
func (p project) wheel(folder, arch string, binary []byte, when time.Time) (name string, size int, err error) {
	files, err := p.files(arch, binary)
	if err != nil {
		return "", 0, err
	}
	var b bytes.Buffer
	if err := writeZip(&b, files, when); err != nil {
		return "", 0, err
	}
	name = fmt.Sprintf("%s-%s-py3-none-%s.whl", p.distribution(), version.Number, strings.Join(tags(arch), "."))
	if b.Len() > maxSize {
		return "", 0, fmt.Errorf("%s has %d bytes, want at most %d", name, b.Len(), maxSize)
	}
	return name, b.Len(), os.WriteFile(filepath.Join(folder, name), b.Bytes(), 0o644)
}

// distribution is the name as files spell it.
func (p project) distribution() string {
	return strings.ReplaceAll(p.table["project.name"][0], "-", "_")
}

// files are all entries in their order: sorted, and RECORD with the sums of the others at the end.
func (p project) files(arch string, binary []byte) ([]file, error) {
	files, err := p.sources()
	metadata, errMetadata := p.metadata()
	license, errLicense := os.ReadFile(filepath.Join(p.folder, "..", "LICENSE"))
	if err := errors.Join(err, errMetadata, errLicense); err != nil {
		return nil, err
	}
	info := p.distribution() + "-" + version.Number + ".dist-info/"
	files = append(files,
		file{name: binaryName, text: binary, mode: 0o755},
		file{name: info + "METADATA", text: []byte(metadata)},
		file{name: info + "WHEEL", text: []byte(wheelText(arch))},
		file{name: info + "entry_points.txt", text: []byte(p.entryPoints())},
		file{name: info + "licenses/LICENSE", text: license})
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return append(files, file{name: info + "RECORD", text: record(files, info+"RECORD")}), nil
}

// wheelText is the text of WHEEL.
func wheelText(arch string) string {
	var b strings.Builder
	b.WriteString("Wheel-Version: 1.0\nGenerator: paragon tools/wheel\nRoot-Is-Purelib: false\n")
	for _, t := range tags(arch) {
		fmt.Fprintf(&b, "Tag: py3-none-%s\n", t)
	}
	return b.String()
}

// record is the text of RECORD: name, hash and length of each file; its own line has the name alone.
func record(files []file, own string) []byte {
	var b bytes.Buffer
	for _, f := range files {
		sum := sha256.Sum256(f.text)
		fmt.Fprintf(&b, "%s,sha256=%s,%d\n", f.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(f.text))
	}
	fmt.Fprintf(&b, "%s,,\n", own)
	return b.Bytes()
}

// writeZip writes files in their order, all with one time.
func writeZip(to io.Writer, files []file, when time.Time) error {
	w := zip.NewWriter(to)
	w.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) { return flate.NewWriter(out, flate.BestCompression) })
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: when}
		h.SetMode(0o644)
		if f.mode != 0 {
			h.SetMode(f.mode)
		}
		entry, err := w.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := entry.Write(f.text); err != nil {
			return err
		}
	}
	return w.Close()
}
