package photos

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// List writes an .lst file for a folder, as MXNet's im2rec reads it. Its paths begin at the file's
// own folder.
func List(path, folder string) error {
	files, err := Files(folder)
	if err != nil {
		return err
	}
	below, err := filepath.Rel(filepath.Dir(path), folder)
	if err != nil {
		return err
	}
	var text strings.Builder
	for i, f := range files {
		fmt.Fprintf(&text, "%d\t%d.000000\t%s\n", i, f.Label, filepath.ToSlash(filepath.Join(below, filepath.FromSlash(f.Name))))
	}
	return os.WriteFile(path, []byte(text.String()), 0o644)
}

// parts calls write with the content of each file of a part, for so many parts of about one size.
func parts(folder string, n int, write func(part int, images [][]byte, labels []int) error) error {
	files, err := Files(folder)
	if err != nil {
		return err
	}
	for p := range n {
		var images [][]byte
		var labels []int
		for _, f := range files[p*len(files)/n : (p+1)*len(files)/n] {
			image, err := os.ReadFile(f.Path)
			if err != nil {
				return err
			}
			images, labels = append(images, image), append(labels, f.Label)
		}
		if err := write(p, images, labels); err != nil {
			return err
		}
	}
	return nil
}

// mdsShard is a shard in MosaicML's index.json.
type mdsShard struct {
	Names     []string `json:"column_names"`
	Encodings []string `json:"column_encodings"`
	Sizes     []*int   `json:"column_sizes"`
	Format    string   `json:"format"`
	Zip       *mdsFile `json:"zip_data"`
	Packed    *string  `json:"compression"`
	Hashes    []string `json:"hashes"`
	Raw       mdsFile  `json:"raw_data"`
	Samples   int      `json:"samples"`
	Version   int      `json:"version"`
}

type mdsFile struct {
	Name   string            `json:"basename"`
	Bytes  int               `json:"bytes"`
	Hashes map[string]string `json:"hashes"`
}

// MDS packs a folder as so many shards of MosaicML's streaming in dir, with their index.json.
func MDS(dir, folder string, shards int) error {
	index := struct {
		Version int        `json:"version"`
		Shards  []mdsShard `json:"shards"`
	}{Version: 2}
	eight := 8
	err := parts(folder, shards, func(p int, images [][]byte, labels []int) error {
		settings := []byte(`{"column_encodings": ["jpeg", "int"], "column_names": ["image", "label"], "column_sizes": [null, 8], "format": "mds", "version": 2}`)
		var samples []byte
		offsets := []uint32{uint32(4*(len(images)+2) + len(settings))}
		for i, image := range images {
			samples = binary.LittleEndian.AppendUint32(samples, uint32(len(image)))
			samples = append(samples, image...)
			samples = binary.LittleEndian.AppendUint64(samples, uint64(labels[i]))
			offsets = append(offsets, offsets[0]+uint32(len(samples)))
		}
		out := binary.LittleEndian.AppendUint32(nil, uint32(len(images)))
		for _, o := range offsets {
			out = binary.LittleEndian.AppendUint32(out, o)
		}
		out = append(append(out, settings...), samples...)
		name := fmt.Sprintf("shard.%05d.mds", p)
		index.Shards = append(index.Shards, mdsShard{
			Names: []string{"image", "label"}, Encodings: []string{"jpeg", "int"}, Sizes: []*int{nil, &eight}, Format: "mds", Hashes: []string{},
			Raw: mdsFile{name, len(out), map[string]string{}}, Samples: len(images), Version: 2,
		})
		return os.WriteFile(filepath.Join(dir, name), out, 0o644)
	})
	if err != nil {
		return err
	}
	text, err := json.Marshal(index)
	return errors.Join(err, os.WriteFile(filepath.Join(dir, "index.json"), text, 0o644))
}

// TFRecords packs a folder as so many TFRecord files in dir, train-00000-of-00003 and on, of
// tf.train.Example with the keys image/encoded and image/class/label.
func TFRecords(dir, folder string, shards int) error {
	return parts(folder, shards, func(p int, images [][]byte, labels []int) error {
		var out []byte
		for i, image := range images {
			out = appendTFRecord(out, example(image, labels[i]))
		}
		return os.WriteFile(filepath.Join(dir, fmt.Sprintf("train-%05d-of-%05d", p, shards)), out, 0o644)
	})
}

// example is the protobuf message tf.train.Example: a map of features by name.
func example(image []byte, label int) []byte {
	message := func(field protowire.Number, content []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), content)
	}
	feature := func(name string, kind protowire.Number, list []byte) []byte {
		return message(1, append(message(1, []byte(name)), message(2, message(kind, list))...))
	}
	class := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(label))
	return message(1, append(feature("image/class/label", 3, class), feature("image/encoded", 1, message(1, image))...))
}

// appendTFRecord appends a record: the length and the data, each with its checksum.
func appendTFRecord(out, content []byte) []byte {
	length := binary.LittleEndian.AppendUint64(nil, uint64(len(content)))
	out = binary.LittleEndian.AppendUint32(append(out, length...), masked(length))
	return binary.LittleEndian.AppendUint32(append(out, content...), masked(content))
}

// masked is TFRecord's checksum: CRC-32C, turned and moved.
func masked(content []byte) uint32 {
	c := crc32.Checksum(content, crc32.MakeTable(crc32.Castagnoli))
	return (c>>15 | c<<17) + 0xa282ead8
}
