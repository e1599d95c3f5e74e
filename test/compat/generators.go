package main

import (
	"context"
	"os"
	"path/filepath"
	"time"
)

// generates describes the steps of each generated client.
const generates = "generate, compile, submit, read, complete a lease, typed problem"

func generatorRows() []row {
	one := func(tool, language string, quick bool, most time.Duration, build buildClient) row {
		does := generates
		if language != "" {
			does = language + ": " + generates
		}
		return row{group: "generators", tool: tool, does: does, quick: quick, most: most, try: generated(build)}
	}
	return []row{
		one("oapi-codegen", "", false, 10*time.Minute, oapiCodegen),
		one("ogen", "", false, 15*time.Minute, ogen),
		one("openapi-typescript", "", true, 5*time.Minute, typescriptOf("openapi-typescript", "openapi.json", "-o",
			"gen.ts")), one("orval", "", true, 5*time.Minute, typescriptOf("orval", "--config", "orval.config.mjs")),
		one("hey-api", "", true, 5*time.Minute, typescriptOf("openapi-ts", "-i", "openapi.json", "-o", "gen")),
		one("openapi-python-client", "", true, 5*time.Minute, openapiPythonClient),
		one("openapi-generator", "Python", false, 10*time.Minute, generatorPython),
		one("openapi-generator", "Java", false, 15*time.Minute, generatorJava),
		one("openapi-generator", "Rust", false, 30*time.Minute, generatorRust),
		one("openapi-generator", "C#", false, 10*time.Minute, generatorCSharp),
	}
}

// buildClient generates and compiles a client in dir, which holds openapi.json and the client's sources, and returns the command that
// runs it, without its arguments.
type buildClient func(ctx context.Context, s *scene, t *installed, dir string) (c command, line []string, err error)

// generated builds a client, which then submits, reads and completes a job and receives a problem.
func generated(build buildClient) func(context.Context, *scene, *installed) (string, error) {
	return func(ctx context.Context, s *scene, t *installed) (string, error) {
		queue, err := s.queue(ctx)
		if err != nil {
			return "", err
		}
		dir, err := s.temp(t.name)
		if err != nil {
			return "", err
		}
		top, err := s.top()
		if err != nil {
			return "", err
		}
		sources := filepath.Join(top, filepath.FromSlash("test/compat/testdata/clients"), t.name)
		for _, from := range []string{sources + "/.", filepath.Join(top,
			filepath.FromSlash("docs/reference/openapi.json"))} {
			if _, err := (command{dir: dir}).run(ctx, "cp", "-r", from, "."); err != nil {
				return "", err
			}
		}
		c, line, err := build(ctx, s, t, dir)
		if err != nil {
			return "", err
		}
		said, err := c.run(ctx, line[0], append(line[1:], s.url(), queue)...)
		if err != nil {
			return "", err
		}
		if err := contains(said, "problem NOT_FOUND"); err != nil {
			return "", err
		}
		return "", s.completed(ctx, queue)
	}
}

// steps runs commands one after another.
func (c command) steps(ctx context.Context, lines ...[]string) error {
	for _, l := range lines {
		if _, err := c.run(ctx, l[0], l[1:]...); err != nil {
			return err
		}
	}
	return nil
}

// goClient compiles a client of Go around the package gen that a step generates.
func goClient(ctx context.Context, dir, runtime string, generate ...string) (command, []string, error) {
	in := command{dir: dir, env: goEnv()}
	return in, []string{"./client"}, in.steps(ctx, []string{"mkdir", "-p", "gen"}, generate,
		[]string{"go", "mod", "init", "compat"},
		[]string{"go", "get", runtime}, []string{"go", "mod", "tidy"},
		[]string{"go", "build", "-p", "1", "-o", "client", "."})
}

func oapiCodegen(ctx context.Context, _ *scene, t *installed, dir string) (command, []string, error) {
	return goClient(ctx, dir, oapiRuntime, t.program, "-generate", "types,client", "-package", "gen", "-o",
		"gen/gen.go", "openapi.json")
}

func ogen(ctx context.Context, _ *scene, t *installed, dir string) (command, []string, error) {
	return goClient(ctx, dir, "github.com/ogen-go/ogen@"+t.version, t.program, "--config", "ogen.yml", "--target",
		"gen", "--package", "gen", "--clean", "openapi.json")
}

// typescriptOf generates with a program of npm, compiles strictly and runs on Node.
func typescriptOf(generate ...string) buildClient {
	return func(ctx context.Context, _ *scene, t *installed, dir string) (command, []string, error) {
		in := command{dir: dir}
		if err := os.Symlink(t.modules(), filepath.Join(dir, "node_modules")); err != nil {
			return in, nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"type":"module"}`), 0o644); err != nil {
			return in, nil, err
		}
		return in, []string{"node", "out/main.js"}, in.steps(ctx, append([]string{t.npx(generate[0])}, generate[1:]...),
			[]string{t.npx("tsc"), "--strict", "--skipLibCheck", "--target", "es2022", "--lib",
				"es2022,dom,dom.iterable", "--module", "esnext",
				"--moduleResolution", "bundler", "--types", "node", "--outDir", "out", "main.ts"},
			[]string{"node", "-e", bundled})
	}
}

// bundled adds the extension that Node needs to imports that generators write without one.
const bundled = `const fs=require("fs"),p=require("path");
for (const f of fs.readdirSync("out",{recursive:true})) { const at=p.join("out",f); if (!f.endsWith(".js")) continue;
fs.writeFileSync(at, fs.readFileSync(at,"utf8").replace(/(from\s+['"])(\.[^'"]*)(['"])/g,(all,a,b,c)=>{
const to=p.join(p.dirname(at),b); return b.endsWith(".js")?all:a+(fs.existsSync(to+".js")?b+".js":b+"/index.js")+c;})); }`

func openapiPythonClient(ctx context.Context, _ *scene, t *installed, dir string) (command, []string, error) {
	in := command{dir: dir}
	return in, []string{t.python(), "main.py"}, in.steps(ctx,
		[]string{t.bin("openapi-python-client"), "generate", "--path", "openapi.json", "--output-path", "gen", "--meta",
			"none"})
}

// generate runs openapi-generator.
func (t *installed) generate(ctx context.Context, dir, language string, more ...string) error {
	args := append([]string{"-jar", t.jar(), "generate", "-i", "openapi.json", "-g", language, "-o", "gen"}, more...)
	_, err := command{dir: dir}.run(ctx, "java", args...)
	return err
}

func generatorPython(ctx context.Context, s *scene, t *installed, dir string) (command, []string, error) {
	needs, err := s.install(ctx, "Python of openapi-generator")
	if err != nil {
		return command{}, nil, err
	}
	in := command{dir: dir, env: pythonEnv(filepath.Join(dir, "gen"))}
	return in, []string{needs.python(), "main.py"}, t.generate(ctx, dir, "python")
}

// generatorJava compiles the client with Maven, which also reports the paths of its dependencies.
func generatorJava(ctx context.Context, _ *scene, t *installed, dir string) (command, []string, error) {
	in := command{dir: dir}
	if err := t.generate(ctx, dir, "java", "--library", "native"); err != nil {
		return in, nil, err
	}
	err := in.steps(ctx, []string{"cp", "Main.java", "gen/src/main/java/"},
		[]string{"mvn", "-q", "-B", "-f", "gen", "compile", "-Dmaven.javadoc.skip=true"},
		[]string{"mvn", "-q", "-B", "-f", "gen", "dependency:copy-dependencies", "-DincludeScope=runtime",
			"-DoutputDirectory=" + filepath.Join(dir, "lib")})
	return in, []string{"java", "-cp", "gen/target/classes:lib/*", "Main"}, err
}

func generatorRust(ctx context.Context, _ *scene, t *installed, dir string) (command, []string, error) {
	in := command{dir: dir}
	if err := t.generate(ctx, dir, "rust", "--library", "reqwest"); err != nil {
		return in, nil, err
	}
	return in, []string{"gen/target/debug/client"}, in.steps(ctx, []string{"mkdir", "-p", "gen/src/bin"},
		[]string{"cp", "main.rs", "gen/src/bin/client.rs"},
		[]string{"cargo", "add", "-q", "--manifest-path", "gen/Cargo.toml", "tokio@1", "--features",
			"macros,rt,net,time"},
		[]string{"cargo", "build", "-q", "-j", "1", "--manifest-path", "gen/Cargo.toml", "--bin", "client",
			"--no-default-features"})
}

func generatorCSharp(context.Context, *scene, *installed, string) (command, []string, error) {
	return command{}, nil, skipped("no dotnet on this machine")
}
