package main

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
)

// contextsFile is the content of the file with the contexts.
type contextsFile struct {
	Current  string                   `yaml:"current"` // used when neither a flag nor the environment chooses
	Contexts map[string]*redisContext `yaml:"contexts"`
}

func (f *contextFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.name, "context", "", "`NAME` of a Redis in the file of --config, in place of the environment (env MANDATE_CONTEXT)")
	flags.StringVar(&f.file, "config", "", "`FILE` with named contexts (env MANDATE_CONFIG; default mandate/config.yaml in the user's configuration folder)")
}

// maxConfig bounds how much is read, in case the wrong file was named.
const maxConfig = 1 << 20

// chooseContext reads the file if it is needed or was named, and records what is wrong. Flags that
// name nodes win over a context from the environment, and --context wins over nodes from the
// environment; the current context of the file only replaces the default. If the environment names
// both a context and nodes, that is refused: either could be the wrong cluster.
func (a *app) chooseContext() {
	name := cmp.Or(a.contexts.name, os.Getenv("MANDATE_CONTEXT"))
	flagged := len(a.redis) > 0 || a.access.urls != ""
	listed := os.Getenv("MANDATE_REDIS")+os.Getenv("MANDATE_REDIS_FILE") != ""
	switch {
	case a.contexts.name != "" && flagged:
		a.problem("--context is given with --redis or --redis-file: give one of them")
		return
	case a.contexts.name == "" && name != "" && listed && !flagged:
		a.problem("MANDATE_CONTEXT and MANDATE_REDIS (or MANDATE_REDIS_FILE) are set: unset one of them, or give --context")
		return
	}
	path, given := a.contexts.path()
	chosen := flagged || name == "" && listed // flags or the environment name the nodes, without a context
	if chosen && !given {
		return
	}
	file, err := readContexts(path)
	if errors.Is(err, fs.ErrNotExist) {
		if name != "" || given { // most users have no such file
			a.problem("%s, and there is no file %s: name the contexts in it (docs/deploying.md), or give another one with --config", a.contexts.asks(), path)
		}
		return
	}
	if err != nil {
		a.problem("the contexts can't be read: %v", err)
		return
	}
	if chosen {
		return
	}
	if name == "" {
		name = file.Current
	}
	if name == "" {
		return
	}
	c := file.Contexts[name]
	if c == nil {
		a.problem("there is no context %q in %s: it has %s", name, path, cmp.Or(output.List(slices.Sorted(maps.Keys(file.Contexts)), 20), "none"))
		return
	}
	a.contexts.name, a.contexts.chosen = name, c
	if c.holdsPassword() {
		a.warnReadable(path)
	}
}

// asks returns the setting that requires the file.
func (f *contextFlags) asks() string {
	switch {
	case f.file != "":
		return "--config is given"
	case f.name != "":
		return "--context is given"
	case os.Getenv("MANDATE_CONFIG") != "":
		return "MANDATE_CONFIG is set"
	default:
		return "MANDATE_CONTEXT is set"
	}
}

// path returns where the file of the contexts is, and whether that was given.
func (f *contextFlags) path() (path string, given bool) {
	if path = cmp.Or(f.file, os.Getenv("MANDATE_CONFIG")); path != "" {
		return path, true
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", false
	}
	return filepath.Join(dir, "mandate", "config.yaml"), false
}

// readContexts reads and checks the file. Its errors name the line but quote none of its values,
// which may be passwords.
func readContexts(path string) (contextsFile, error) {
	var file contextsFile
	if path == "" {
		return file, fs.ErrNotExist
	}
	f, err := os.Open(path)
	if err != nil {
		return file, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxConfig))
	if err != nil {
		return file, err
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return file, errors.New(path + ": " + yamlProblem(err))
	}
	for name, c := range file.Contexts {
		switch {
		case name != output.Printable(name) || strings.ContainsAny(name, " \t") || name == "" || len(name) > 100:
			return file, errors.New(path + ": a context's name is empty, too long or has spaces or control characters in it")
		case c == nil || len(c.Redis) == 0 && c.RedisFile == "":
			return file, errors.New(path + ": context " + name + ": redis is missing: list the URLs, or name a redis-file")
		case len(c.Redis) > 0 && c.RedisFile != "":
			return file, errors.New(path + ": context " + name + ": redis and redis-file are given: give one of them")
		}
	}
	if file.Current != "" && file.Contexts[file.Current] == nil {
		return file, errors.New(path + ": current names no context of the file")
	}
	return file, nil
}

// yamlProblem returns an error of the parser in one line, without the values that it quotes.
func yamlProblem(err error) string {
	msg := strings.TrimPrefix(err.Error(), "yaml: ")
	msg = strings.Join(strings.Fields(strings.Replace(msg, "unmarshal errors:", "", 1)), " ")
	if before, after, ok := strings.Cut(msg, "`"); ok { // cannot unmarshal !!str `redis:...` into ...
		if _, rest, ok := strings.Cut(after, "`"); ok {
			msg = before + "a value" + rest
		} else {
			msg = before
		}
	}
	msg, _, _ = strings.Cut(msg, " in type main.")
	return strings.NewReplacer("[]string", "a list", "main.redisContext", "a context", "main.contextsFile", "contexts").Replace(msg)
}

// contextName returns the name of the chosen context, which is shown so that an operator does not act on
// the wrong cluster.
func (a *app) contextName() string {
	if a.contexts.chosen == nil {
		return ""
	}
	return a.contexts.name
}

// whereFields returns a line that names the chosen context.
func (a *app) whereFields() []output.Field {
	if name := a.contextName(); name != "" {
		return []output.Field{{Name: "context", Text: name, Color: output.Bold}}
	}
	return nil
}

// whereLine returns that line, to be printed above a table on a terminal. Scripts get only the
// table.
func (a *app) whereLine(p *output.Printer) []string {
	if p.Width == 0 {
		return nil
	}
	return p.Fields(a.whereFields())
}

// completeContexts offers the names of the contexts in the file.
func (a *app) completeContexts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	path, _ := a.contexts.path()
	file, err := readContexts(path)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return slices.Sorted(maps.Keys(file.Contexts)), cobra.ShellCompDirectiveNoFileComp
}

// choosePrefix takes the prefix from the flag, or else from the context, or from the environment.
func (a *app) choosePrefix() {
	switch c := a.contexts.chosen; {
	case a.prefix != "":
		a.prefixFrom = "--prefix"
	case c != nil:
		a.prefix, a.prefixFrom = cmp.Or(c.Prefix, defaultPrefix), "the prefix of context "+a.contexts.name
	default:
		a.prefix, a.prefixFrom = cmp.Or(os.Getenv("MANDATE_PREFIX"), defaultPrefix), "MANDATE_PREFIX"
	}
}
