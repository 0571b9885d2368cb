// Package bytescodec has the gRPC codec of test programs that send plain bytes as messages.
package bytescodec

// Codec takes messages of type *[]byte.
type Codec struct{}

// Marshal returns the message.
func (Codec) Marshal(message any) ([]byte, error) { return *message.(*[]byte), nil }

// Unmarshal copies the data into the message.
func (Codec) Unmarshal(data []byte, message any) error {
	*message.(*[]byte) = append([]byte(nil), data...)
	return nil
}

// Name returns the usual codec's name, so that every peer accepts the messages.
func (Codec) Name() string { return "proto" }
