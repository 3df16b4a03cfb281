package checkpoint

import (
	"fmt"
	"hash/crc32"
	"strings"

	"github.com/paragon-train/paragon/internal/observe/shown"
)

// takeSums takes the checksums from the metadata, and compares the first one with the header. head
// is the header's whole text, with its length.
func (f *File) takeSums(head []byte) error {
	text, ok := f.metadata[metaSums]
	if !ok {
		return nil
	}
	delete(f.metadata, metaSums)
	noted, got, err := unsealed(head, headerSums)
	if err != nil {
		return fmt.Errorf("%s in the metadata: %w", metaSums, err)
	}
	if noted != got {
		return fmt.Errorf("got the checksum %08x, want %08x as recorded in it", got, noted)
	}
	list := strings.Split(text, " ")
	if len(list) != 1+len(f.infos) {
		return fmt.Errorf("%s in the metadata: got %d checksums, want %d: of the header and of each tensor", metaSums, len(list), 1+len(f.infos))
	}
	for i := range f.infos {
		if f.infos[i].sum, err = parseSum(list[1+i]); err != nil {
			return fmt.Errorf("%s in the metadata: tensor %s: %w", metaSums, shown.Name(f.infos[i].Name), err)
		}
	}
	f.sum, f.summed = noted, true
	return nil
}

// HasChecksums reports whether the file has checksums, as all files of this package do. Data of
// other files, or of files of older versions, is not verified.
func (f *File) HasChecksums() bool { return f.summed }

// Verify reads the whole file and compares it with its checksums: an error names the tensor, and is
// ErrDamaged. Without checksums it does nothing.
func (f *File) Verify() error {
	if !f.summed {
		return nil
	}
	buffer := make([]byte, 1<<20)
	for _, info := range f.infos {
		sum := uint32(0)
		for at := int64(0); at < info.Bytes; {
			b := buffer[:min(int64(len(buffer)), info.Bytes-at)]
			if err := f.readAt(info, b, at); err != nil {
				return err
			}
			sum = crc32.Update(sum, castagnoli, b)
			at += int64(len(b))
		}
		if err := f.compare(info, sum); err != nil {
			return err
		}
	}
	return nil
}

// compare compares the checksum of a tensor that was read with the file's.
func (f *File) compare(info Info, sum uint32) error {
	if !f.summed || sum == info.sum {
		return nil
	}
	return fmt.Errorf("checkpoint: %s: tensor %s: %w", f.name, shown.Name(info.Name), damaged("its %d bytes have the checksum %08x, want %08x", info.Bytes, sum, info.sum))
}
