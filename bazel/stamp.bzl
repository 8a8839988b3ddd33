"""stamped: a program that knows the commit which it was built from.

The commit is written into the finished program, in the place of its section .gluond_commit. Bazel takes no change of it for a
change (it is in the workspace's volatile status), so a commit alone builds nothing anew, and what is built has the commit of then.
"""

def _stamped(ctx):
    program = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.run_shell(
        inputs = [ctx.executable.program, ctx.version_file],
        outputs = [program],
        arguments = [ctx.executable.program.path, ctx.version_file.path, program.path],
        command = """set -e
{ sed -n 's/^GLUOND_COMMIT //p' "$2" | tr -d '\\n'; head -c 64 /dev/zero; } | head -c 64 >"$3.commit"
objcopy --update-section .gluond_commit="$3.commit" "$1" "$3"
rm "$3.commit"
""",
        mnemonic = "Stamp",
        progress_message = "Stamping %s" % program.short_path,
    )
    return [DefaultInfo(executable = program, runfiles = ctx.runfiles([program]).merge(ctx.attr.program[DefaultInfo].default_runfiles))]

stamped = rule(
    implementation = _stamped,
    attrs = {"program": attr.label(executable = True, cfg = "target", mandatory = True)},
    executable = True,
)
