package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/rotasched/rota/internal/generate/codec"
	"github.com/rotasched/rota/internal/generate/python"
	"github.com/rotasched/rota/internal/generate/schema"
	"github.com/rotasched/rota/internal/generate/sentences"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	check := flag.Bool("check", false, "write nothing; fail when a generated file is stale")
	module := flag.String("module", ".", "folder of the module")
	flag.Parse()
	if err := run(context.Background(), *module, *check); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// run generates all roots; it writes a file only if its bytes change.
func run(ctx context.Context, module string, check bool) error {
	var stale []error
	var sets []schema.Set
	for _, root := range schema.Roots {
		set, err := schema.Compile(ctx, module, root)
		if err != nil {
			return err
		}
		sets = append(sets, set)
		if len(set.Names) == 0 {
			continue
		}
		tools := []string{"protoc-gen-go"}
		if root.Services {
			tools = append(tools, "protoc-gen-go-grpc")
		}
		for _, tool := range tools {
			files, err := ask(ctx, module, tool, set)
			if err != nil {
				return err
			}
			for _, f := range files {
				path := filepath.Join(module, root.Import, filepath.FromSlash(f.GetName()))
				if err := put(path, []byte(f.GetContent()), check); err != nil {
					stale = append(stale, err)
				}
			}
		}
	}
	files, err := codec.Files(sets)
	if err != nil {
		return errors.Join(append(stale, err)...)
	}
	for _, f := range files {
		if err := put(filepath.Join(module, filepath.FromSlash(f.Path)), f.Content, check); err != nil {
			stale = append(stale, err)
		}
	}
	pythons, err := python.Files(sets[0])
	if err != nil {
		return errors.Join(append(stale, err)...)
	}
	for _, f := range pythons {
		if err := put(filepath.Join(module, filepath.FromSlash(f.Path)), f.Content, check); err != nil {
			stale = append(stale, err)
		}
	}
	text, err := sentences.File(module)
	if err != nil {
		return errors.Join(append(stale, err)...)
	}
	if err := put(filepath.Join(module, filepath.FromSlash(sentences.Path)), text, check); err != nil {
		stale = append(stale, err)
	}
	return errors.Join(stale...)
}

// ask runs one generator over a set, as protoc would.
func ask(ctx context.Context, module, tool string, set schema.Set) ([]*pluginpb.CodeGeneratorResponse_File, error) {
	request, err := proto.Marshal(&pluginpb.CodeGeneratorRequest{
		FileToGenerate: set.Names,
		Parameter:      proto.String("paths=source_relative"),
		ProtoFile:      set.Files,
	})
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	cmd := exec.CommandContext(ctx, "go", "tool", tool)
	cmd.Dir, cmd.Stdin, cmd.Stderr = module, bytes.NewReader(request), os.Stderr
	answer, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("run go tool %s: %w", tool, err)
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(answer, &response); err != nil {
		return nil, fmt.Errorf("decode answer of %s: %w", tool, err)
	}
	if response.Error != nil {
		return nil, fmt.Errorf("%s: %s", tool, response.GetError())
	}
	return response.File, nil
}

// put writes a generated file, or in a check compares it. Files that differ only in the line of protoc's version are
// left as they are.
func put(path string, content []byte, check bool) error {
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("read generated file: %w", err)
	}
	if err == nil && bytes.Equal(withoutVersion(old), withoutVersion(content)) {
		return nil
	}
	if check {
		return fmt.Errorf("%s is stale: run `make generate`", path)
	}
	fmt.Println(path)
	fresh := path + ".new"
	if err := os.WriteFile(fresh, content, 0o644); err != nil {
		return fmt.Errorf("write generated file: %w", err)
	}
	if err := os.Rename(fresh, path); err != nil {
		return fmt.Errorf("place generated file: %w", err)
	}
	return nil
}

// withoutVersion drops the header line that names the version of protoc: "//      protoc        v3.21.12" or "// -
// protoc             (unknown)".
func withoutVersion(content []byte) []byte {
	var kept [][]byte
	for _, line := range bytes.SplitAfter(content, []byte("\n")) {
		words := bytes.Fields(bytes.TrimLeft(line, "/- \t"))
		if bytes.HasPrefix(line, []byte("//")) && len(words) == 2 && string(words[0]) == "protoc" {
			continue
		}
		kept = append(kept, line)
	}
	return bytes.Join(kept, nil)
}
