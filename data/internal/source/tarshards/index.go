package tarshards

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// format names indices of this package; another way to write them needs another name.
const format = "tar 1"

// An index is a list of the members of a shard that have a name with a dot. Each is four varints
// and a text: how many bytes of the name are those of the member before, how many follow, these
// bytes, the blocks between the end of the data of the member before and this one's, and the size.

// appendMember appends a member to an index; before is the one before it.
func appendMember(index []byte, before, m member) []byte {
	same := 0
	for same < len(m.name) && same < len(before.name) && m.name[same] == before.name[same] {
		same++
	}
	index = binary.AppendUvarint(index, uint64(same))
	index = binary.AppendUvarint(index, uint64(len(m.name)-same))
	index = append(index, m.name[same:]...)
	index = binary.AppendUvarint(index, uint64(m.data-before.end())/blockSize)
	return binary.AppendUvarint(index, uint64(m.size))
}

// end is where the data end, filled to whole blocks.
func (m member) end() int64 { return m.data + padded(m.size) }

var errIndex = errors.New("the index is damaged")

// eachMember calls found for each member of an index of a shard of this size.
func eachMember(index []byte, shardSize int64, found func(member) error) error {
	var before member
	number := func() (n uint64, ok bool) {
		n, used := binary.Uvarint(index)
		if used <= 0 {
			return 0, false
		}
		index = index[used:]
		return n, true
	}
	for len(index) > 0 {
		same, ok1 := number()
		more, ok2 := number()
		if !ok1 || !ok2 || same > uint64(len(before.name)) || more > uint64(len(index)) || same+more > maxName {
			return errIndex
		}
		m := member{name: before.name[:same] + string(index[:more])}
		index = index[more:]
		blocks, ok1 := number()
		size, ok2 := number()
		if !ok1 || !ok2 || blocks > uint64(shardSize)/blockSize || size > uint64(shardSize) {
			return errIndex
		}
		m.data, m.size = before.end()+int64(blocks)*blockSize, int64(size)
		if m.data < blockSize || m.data > shardSize-m.size {
			return errIndex
		}
		if err := found(m); err != nil {
			return err
		}
		before = m
	}
	return nil
}

// maxDALI bounds the index of DALI's that is read.
const maxDALI = 1 << 30

// daliName is what DALI's wds2idx calls the index of a shard.
func daliName(shard string) string {
	slash := strings.LastIndexByte(shard, '/') + 1
	// A dot that begins the name does not end it.
	if dot := strings.IndexByte(shard[min(slash+1, len(shard)):], '.'); dot >= 0 {
		return shard[:slash+1+dot] + ".idx"
	}
	return shard + ".idx"
}

// parseDALI reads an index of DALI's wds2idx, "v1.2 samples" and then a line for each sample of
// "extension offset size name" for each of its members. It reports whether the index is whole, has
// names, and can be of a shard of this size. end is where the data of the last member end; an
// archive has an empty block there.
func parseDALI(text []byte, shardSize int64) (members []member, end int64, ok bool) {
	if len(text) == 0 || text[len(text)-1] != '\n' {
		return nil, 0, false
	}
	first, rest, _ := bytes.Cut(text, []byte("\n"))
	fields := strings.Fields(string(first[:min(len(first), 64)]))
	if len(fields) != 2 || fields[0] != "v1.2" {
		return nil, 0, false
	}
	samples, err := strconv.ParseUint(fields[1], 10, 63)
	if err != nil {
		return nil, 0, false
	}
	count := uint64(0)
	for line := range bytes.Lines(rest) {
		count++
		words := bytes.Split(bytes.TrimRight(line, "\r\n"), []byte(" "))
		if len(words)%4 != 0 {
			// Names with spaces, or an index of an older form, which has no names.
			return nil, 0, false
		}
		for ; len(words) > 0; words = words[4:] {
			off, err1 := strconv.ParseUint(string(words[1]), 10, 63)
			size, err2 := strconv.ParseUint(string(words[2]), 10, 63)
			m := member{name: string(words[3]), data: int64(off), size: int64(size)}
			if err1 != nil || err2 != nil || m.data%blockSize != 0 || m.data < end+blockSize || m.data > shardSize || m.size > shardSize-m.data {
				return nil, 0, false
			}
			members, end = append(members, m), m.end()
		}
	}
	if count != samples || end > shardSize-blockSize {
		return nil, 0, false
	}
	return members, end, true
}

// splitName cuts a member's name into the key of its sample and the extension; ok is false for
// names that are no part of a sample.
func splitName(name string) (key, extension string, ok bool) {
	slash := strings.LastIndexByte(name, '/') + 1
	base := name[slash:]
	dot := strings.IndexByte(base, '.')
	first, _, _ := strings.Cut(name, "/")
	if dot < 1 || isMeta(base[:dot]) || isMeta(first) {
		return "", "", false
	}
	return name[:slash+dot], strings.ToLower(base[dot+1:]), true
}

// isMeta reports whether a name is of the form __x__, which WebDataset keeps for what is no sample.
func isMeta(s string) bool {
	return len(s) >= 4 && strings.HasPrefix(s, "__") && strings.HasSuffix(s, "__")
}

// What the label of an entry is.
const (
	labelNone = iota
	labelText
	labelJSON
	// labelMaybe is JSON that may have no label.
	labelMaybe
	// What is wrong with a sample.
	faultNoImage
	faultPickle
	faultImageSize
	faultLabelSize
)

// An entry is what is kept of a sample: 20 bytes, and its key.
type entry struct {
	// image is the block of the image's first byte.
	image uint32

	imageSize uint32

	// label is the block of the label's first byte, less image.
	label int32

	// labelSize has 20 bits. Above them are kindBits of a label's kind, and above those the place
	// of the extension.
	labelSize uint32

	// keyEnd is where the key ends in the shard's keys. It begins where the one before ends.
	keyEnd uint32
}

const (
	labelBits = 20
	kindBits  = 4
	// maxLabel is the largest member that is read for a label.
	maxLabel = 1<<labelBits - 1
	// maxImages is how many extensions of images there can be.
	maxImages = 1 << (32 - labelBits - kindBits)
)

func (e *entry) setLabel(size int64, kind, extension int) {
	e.labelSize = uint32(size) | uint32(kind)<<labelBits | uint32(extension)<<(labelBits+kindBits)
}

func (e *entry) kind() int { return int(e.labelSize >> labelBits & (1<<kindBits - 1)) }

func (e *entry) extension() int { return int(e.labelSize >> (labelBits + kindBits)) }

// A builder makes the entries of a shard of its members in order.
type builder struct {
	images, labels []string // extensions, best first

	// maybe says that a label in JSON may be missing.
	maybe bool

	entries []entry
	keys    []byte

	open    bool // a sample is under way
	key     string
	sample  []part
	members int
}

// A part is a member of the sample under way.
type part struct {
	extension  string
	data, size int64
}

// errMembers is of a shard with more than its entries can count.
var errMembers = errors.New("the shard has 2 TiB or more, or keys of 4 GiB")

// add takes the next member of the shard.
func (b *builder) add(m member) error {
	key, extension, ok := splitName(m.name)
	if !ok {
		return nil
	}
	b.members++
	if !b.open || key != b.key {
		if err := b.end(); err != nil {
			return err
		}
		b.open, b.key = true, key
	}
	for _, p := range b.sample {
		if p.extension == extension {
			return fmt.Errorf("sample %q has two members %q, one with its data at byte %d and one at byte %d: keys are told apart up to their first dot; pack the shard anew with each key once", key, extension, p.data, m.data)
		}
	}
	b.sample = append(b.sample, part{extension, m.data, m.size})
	return nil
}

// end closes the sample under way.
func (b *builder) end() error {
	if !b.open {
		return nil
	}
	e := entry{}
	first := b.sample[0].data
	image, imageAt := b.find(b.images)
	label, labelAt := b.find(b.labels)
	kind, labelSize := labelNone, int64(0)
	if labelAt >= 0 {
		labelSize = label.size
		switch {
		case !isJSON(label.extension):
			kind = labelText
		case b.maybe:
			kind = labelMaybe
		default:
			kind = labelJSON
		}
		if labelSize > maxLabel {
			kind, labelSize = faultLabelSize, 0
			if b.maybe && isJSON(label.extension) {
				kind = labelNone
			}
		}
	}
	switch {
	case imageAt < 0:
		image, kind, labelSize = part{data: first}, faultNoImage, 0
		if b.pickled() {
			kind = faultPickle
		}
	case kind == labelNone && b.pickled():
		kind = faultPickle
	case image.size > maxImage:
		image.size, kind, labelSize = 0, faultImageSize, 0
	}
	if image.data/blockSize > math.MaxUint32 || uint64(len(b.keys)+len(b.key)) > math.MaxUint32 {
		return errMembers
	}
	e.image, e.imageSize = uint32(image.data/blockSize), uint32(image.size)
	if labelSize > 0 || kind == labelText || kind == labelJSON {
		away := (label.data - image.data) / blockSize
		if away > math.MaxInt32 || away < math.MinInt32 {
			return errMembers
		}
		e.label = int32(away)
	}
	e.setLabel(labelSize, kind, max(0, imageAt))
	b.keys = append(b.keys, b.key...)
	e.keyEnd = uint32(len(b.keys))
	b.entries = append(b.entries, e)
	b.open, b.sample = false, b.sample[:0]
	return nil
}

// find returns the member with the first of these extensions that the sample has, and which one
// that is; −1: none.
func (b *builder) find(extensions []string) (part, int) {
	for k, extension := range extensions {
		for _, p := range b.sample {
			if p.extension == extension {
				return p, k
			}
		}
	}
	return part{}, -1
}

// pickled reports whether a member of the sample is a pickle.
func (b *builder) pickled() bool {
	for _, p := range b.sample {
		switch p.extension[strings.LastIndexByte(p.extension, '.')+1:] {
		case "pyd", "pickle", "pkl", "pth":
			return true
		}
	}
	return false
}

func isJSON(extension string) bool {
	return extension == "json" || strings.HasSuffix(extension, ".json")
}
