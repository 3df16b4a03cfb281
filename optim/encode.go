package optim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// MaxEncoded is the largest encoded config that Decode accepts, in bytes.
const MaxEncoded = 1 << 20

// Encode returns the config as JSON, after Validate. Zero fields are left out,
// so the bytes of a config do not change when a field is added to the type.
func (c Config) Encode() ([]byte, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	data, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("optim: encode %s: %w", c.Name, err)
	}
	if len(data) > MaxEncoded {
		return nil, fmt.Errorf("optim: encode %s: got %d bytes, want at most %d", c.Name, len(data), MaxEncoded)
	}
	return data, nil
}

// Decode reads what Encode wrote. Bytes that are too many, fields that are not
// known, anything after the object, and a config that is not valid are errors.
func Decode(data []byte) (Config, error) {
	if len(data) > MaxEncoded {
		return Config{}, fmt.Errorf("optim: decode: got %d bytes, want at most %d", len(data), MaxEncoded)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var c Config
	if err := d.Decode(&c); err != nil {
		return Config{}, fmt.Errorf("optim: decode %d bytes: at byte %d: %w", len(data), d.InputOffset(), err)
	}
	if _, err := d.Token(); err != io.EOF {
		return Config{}, fmt.Errorf("optim: decode %d bytes: more follows the config at byte %d", len(data), d.InputOffset())
	}
	if err := c.Validate(); err != nil {
		return Config{}, err
	}
	return c, nil
}
