package rota

import (
	"bytes"
	"testing"
)

// BenchmarkLayouts reads and writes a job as a client submits it, in one pass and with encoding/json alone.
func BenchmarkLayouts(b *testing.B) {
	job := NewJobSpec("submitted", bytes.Repeat([]byte("x"), 256))
	job.ID = "job-1"
	text, err := jobSpecJSON.marshal(job)
	if err != nil {
		b.Fatal(err)
	}
	for name, read := range map[string]func(*layout, []byte, any) error{"onePass": (*layout).unmarshal,
		"slowly": slowUnmarshal} {
		b.Run("read/"+name, func(b *testing.B) {
			for b.Loop() {
				if err := read(jobSpecJSON, text, new(JobSpec)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	for name, write := range map[string]func(*layout, any) ([]byte, error){"onePass": (*layout).marshal,
		"slowly": slowMarshal} {
		b.Run("write/"+name, func(b *testing.B) {
			for b.Loop() {
				if _, err := write(jobSpecJSON, job); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
