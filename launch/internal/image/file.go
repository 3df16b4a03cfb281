package image

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// A File is a file, a folder or a link of an image. What it holds comes from one of Content,
// Source, Program and Link; a folder has none of them.
type File struct {
	// Path is absolute and clean, in the image.
	Path string

	Mode    fs.FileMode
	Content []byte
	Source  string   // a file here
	Program *Program // a program here, without its symbols
	Link    string   // what a symbolic link points to
}

// A Group of files is a layer of an image.
type Group struct {
	// Name is for the image's history.
	Name string

	Files []File
}

func (f File) isFolder() bool {
	return f.Content == nil && f.Source == "" && f.Program == nil && f.Link == ""
}

// open reads the file's content.
func (f File) open() (r io.ReadCloser, size int64, err error) {
	switch {
	case f.Program != nil:
		return f.Program.openStripped()
	case f.Source == "":
		return io.NopCloser(strings.NewReader(string(f.Content))), int64(len(f.Content)), nil
	}
	file, err := os.Open(f.Source)
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return nil, 0, err
	}
	return file, info.Size(), nil
}

// normalMode is the mode of a file in an image: executable by all, or readable by all. The umask of
// who wrote it here does not count.
func normalMode(mode fs.FileMode) fs.FileMode {
	if mode.IsDir() || mode&0o111 != 0 {
		return 0o755
	}
	return 0o644
}

// Add reads SOURCE:DESTINATION, a file or a folder of this machine and its path in the image, and
// returns the files.
func Add(spec string) ([]File, error) {
	source, destination, ok := strings.Cut(spec, ":")
	switch {
	case !ok || source == "":
		return nil, fmt.Errorf("%q: write SOURCE:DESTINATION, a file or folder here and its path in the image", spec)
	case !path.IsAbs(destination) || path.Clean(destination) == "/":
		return nil, fmt.Errorf("%q: the destination %q is not an absolute path of a file or folder in the image", spec, destination)
	case path.Clean(destination) != strings.TrimSuffix(destination, "/"):
		return nil, fmt.Errorf("%q: the destination %q has empty, . or .. parts; write %s", spec, destination, path.Clean(destination))
	}
	destination = path.Clean(destination)
	// The source itself may be a link; within a folder links stay what they are.
	root, err := filepath.EvalSymlinks(source)
	if err != nil {
		return nil, err
	}
	var files []File
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		f := File{Path: path.Join(destination, filepath.ToSlash(below))}
		switch info, err := d.Info(); {
		case err != nil:
			return err
		case info.Mode().IsDir():
			f.Mode = normalMode(info.Mode())
		case info.Mode().IsRegular():
			f.Mode, f.Source = normalMode(info.Mode()), name
		case info.Mode()&fs.ModeSymlink != 0:
			if f.Link, err = os.Readlink(name); err != nil {
				return err
			}
			f.Mode = 0o777
		default:
			return fmt.Errorf("%s is not a file, folder or link (%v); an image cannot hold it", name, info.Mode())
		}
		files = append(files, f)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return files, nil
}

// User is who processes in an image run as, by name and number. Above 65000 are no users of a
// system; distroless images take the same number.
const (
	User       = "65532:65532"
	userName   = "paragon"
	userNumber = "65532"
)

// System are the files that programs expect of a system. certificates are the authorities that the
// image trusts (PEM); nil: none.
func System(certificates []byte) []File {
	files := []File{
		{Path: "/etc/passwd", Mode: 0o644, Content: []byte("root:x:0:0:root:/root:/sbin/nologin\n" + userName + ":x:" + userNumber + ":" + userNumber + ":paragon:/tmp:/sbin/nologin\n")},
		{Path: "/etc/group", Mode: 0o644, Content: []byte("root:x:0:\n" + userName + ":x:" + userNumber + ":\n")},
		{Path: "/etc/nsswitch.conf", Mode: 0o644, Content: []byte("hosts: files dns\n")},
		{Path: "/tmp", Mode: 0o777 | fs.ModeSticky},
	}
	if certificates != nil {
		files = append(files, File{Path: "/etc/ssl/certs/ca-certificates.crt", Mode: 0o644, Content: certificates})
	}
	return files
}

// certificateFiles are where systems have the authorities that they trust.
var certificateFiles = []string{
	"/etc/ssl/certs/ca-certificates.crt", // Debian, Ubuntu, Alpine, Arch
	"/etc/pki/tls/certs/ca-bundle.crt",   // Fedora, RHEL
	"/etc/ssl/ca-bundle.pem",             // openSUSE
}

// Certificates are the authorities that this machine trusts, and the file that has them; nil: it
// has no such file.
func Certificates() ([]byte, string, error) {
	for _, name := range certificateFiles {
		switch b, err := os.ReadFile(name); {
		case err == nil && len(b) > 0:
			return b, name, nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return nil, "", err
		}
	}
	return nil, "", nil
}

// withFolders adds the folders that files lie in, and sorts all by path: a folder comes before what
// is in it.
func withFolders(files []File) ([]File, error) {
	byPath := make(map[string]File)
	for _, f := range files {
		if other, ok := byPath[f.Path]; ok && !(f.isFolder() && other.isFolder()) {
			return nil, fmt.Errorf("%s is in the image twice", f.Path)
		}
		byPath[f.Path] = f
	}
	for _, f := range files {
		for dir := path.Dir(f.Path); dir != "/"; dir = path.Dir(dir) {
			switch other, ok := byPath[dir]; {
			case !ok:
				byPath[dir] = File{Path: dir, Mode: 0o755}
			case !other.isFolder():
				return nil, fmt.Errorf("%s is in the image as a file, and %s would lie below it", dir, f.Path)
			}
		}
	}
	all := make([]File, 0, len(byPath))
	for _, f := range byPath {
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return all, nil
}
