package migrations

import (
	"embed"
	"io"
	"io/fs"
	"strings"
)

//go:embed sql/*.sql
var embedded embed.FS

// scripts is the directory of migrations with the placeholders filled in.
type scripts struct{ config Config }

// Open implements fs.FS.
func (s scripts) Open(name string) (fs.File, error) {
	dir, err := fs.Sub(embedded, "sql")
	if err != nil {
		return nil, err
	}
	file, err := dir.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil || info.IsDir() {
		return file, err
	}
	defer file.Close()
	raw, err := io.ReadAll(file)
	if err != nil {
		return nil, err
	}
	return script{strings.NewReader(s.config.substitute(string(raw))), info}, nil
}

// script is one substituted file; its FileInfo tells the size before substitution, which readers take as a hint only.
type script struct {
	*strings.Reader
	info fs.FileInfo
}

func (s script) Stat() (fs.FileInfo, error) { return s.info, nil }
func (s script) Close() error               { return nil }
