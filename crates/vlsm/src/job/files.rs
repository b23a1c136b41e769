//! The files that a job writes. They are created, written, synced and, if the job is cancelled,
//! removed in the background.
//!
//! 1. The first chunk of an SST creates its file. Chunks queue until the file exists.
//! 2. Each chunk is written by a call of its own; its memory is reused.
//! 3. When all chunks are written, one call gives the WALs to which the SSTs refer their second
//!    names, syncs all files of the job, and makes their readers.
//!
//! A cancelled job may have calls in flight. Writes to a removed file are harmless. A call that
//! creates a file after the cancel removes it again.

use crate::copies::link;
use crate::job::Context;
use crate::job::output::{Outputs, WriteRequest};
use crate::shared::Shared;
use std::collections::VecDeque;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use vlsm_core::planted::{self, Bug};
use vlsm_core::{Bytes, Error, FileMeta, FileNumber, Result, Seq};
use vlsm_disk::fs::OpenOptions;
use vlsm_disk::sst::{SstReader, SstSummary, Tail, sst_path, values_path};
use vlsm_disk::wal::wal_path;
use vlsm_disk::{AlignedBuf, File, Pending, Rank, Way};
use vlsm_policy::Class;

/// One SST being written.
struct OutputFile {
    number: FileNumber,
    path: PathBuf,
    making: Option<Pending<Arc<dyn File>>>,
    file: Option<Arc<dyn File>>,
}

/// The WALs to which an SST refers, each with its second name beside the SST.
fn links(dir: &Path, meta: &FileMeta) -> impl Iterator<Item = (PathBuf, PathBuf)> {
    let sst = sst_path(dir, meta.number);
    let link = |wal: &u64| (wal_path(dir, *wal), values_path(&sst, *wal));
    meta.wals.iter().map(link).collect::<Vec<_>>().into_iter()
}

/// All SSTs of one job.
#[derive(Default)]
pub(crate) struct OutputFiles {
    files: Vec<OutputFile>,
    /// Chunks whose file does not exist yet.
    queued: VecDeque<WriteRequest>,
    writing: Vec<Pending<AlignedBuf>>,
    bytes: u64,
    metas: Vec<Arc<FileMeta>>,
    given_up: Arc<AtomicBool>,
    failed: Arc<AtomicBool>,
}

impl OutputFiles {
    /// Whether a call failed. The job then ends at once, even if it is paused, because a late error
    /// reports an earlier state of the device: a device that was full may have room again.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Returns the function through which a failed call passes its error.
    fn failure(&self) -> impl Fn(Error) -> Error + Send + 'static {
        let failed = self.failed.clone();
        move |error| {
            failed.store(true, Ordering::Release);
            error
        }
    }

    /// Collects the results of the calls that ended.
    pub fn collect(&mut self, outputs: &mut Outputs) -> Result<()> {
        let mut index = 0;
        while index < self.writing.len() {
            match self.writing[index].try_take() {
                Some(buf) => {
                    outputs.written(buf?);
                    let _ = self.writing.swap_remove(index);
                }
                None => index += 1,
            }
        }
        for file in &mut self.files {
            if let Some(made) = file.making.as_ref().and_then(Pending::try_take) {
                file.file = Some(made?);
                file.making = None;
            }
        }
        Ok(())
    }

    /// Submits writes of the chunks that are ready. They are bulk I/O, except that a job that frees
    /// memtables writes at once.
    pub fn write(
        &mut self,
        context: &Context,
        outputs: &mut Outputs,
        (frees, rank): (Class, Rank),
    ) -> Result<()> {
        let pool = context.shared.io.ranked(rank).urgent(frees == Class::Memtable);
        while let Some(request) = outputs.next_write() {
            while self.files.len() <= request.file {
                self.make(context);
            }
            self.queued.push_back(request);
        }
        while let Some(request) = self.queued.front() {
            let Some(file) = self.files[request.file].file.clone() else { break };
            let path = self.files[request.file].path.clone();
            let Some(WriteRequest { offset, buf, .. }) = self.queued.pop_front() else { break };
            self.bytes += buf.len() as u64;
            let failure = self.failure();
            let failed = move |error| failure(Error::io("cannot write SST", &path, error));
            self.writing.push(match frees {
                Class::Memtable => pool.submit_write(move || {
                    file.write_at(&buf, offset).map_err(failed)?;
                    Ok(buf)
                }),
                _ => pool.submit_bulk(Way::Write, move |bulk| {
                    let piece = |part: Range<usize>| {
                        let at = offset + part.start as u64;
                        file.write_at(&buf[part], at)
                    };
                    bulk.call(Way::Write, buf.len(), piece).map_err(failed)?;
                    Ok(buf)
                }),
            });
        }
        Ok(())
    }

    fn make(&mut self, context: &Context) {
        let Context { shared, tables, .. } = context;
        let number = FileNumber(shared.numbers.next_file());
        let path = sst_path(&shared.dir, number);
        let env = shared.env.clone();
        let options = OpenOptions::CREATE.direct(shared.options.direct_io);
        let (target, given_up) = (path.clone(), self.given_up.clone());
        let cache = tables.clone();
        let failure = self.failure();
        let making = shared.io.submit(move || {
            let made = cache.open_file(&target, options);
            if made.is_ok() && given_up.load(Ordering::SeqCst) {
                let _ = env.fs().remove(&target);
            }
            made.map_err(|error| failure(Error::io("cannot make SST", &target, error)))
        });
        self.files.push(OutputFile { number, path, making: Some(making), file: None });
    }

    /// Whether every chunk is written.
    pub fn is_written(&self, outputs: &Outputs) -> bool {
        self.queued.is_empty() && self.writing.is_empty() && outputs.unwritten() == 0
    }

    /// Submits a sync of all files, and returns the readers of those whose tails were kept, each
    /// with the file's index. If `age` is given, the manifest records it instead of the sequence
    /// numbers of their entries.
    pub fn sync(
        &mut self,
        context: &Context,
        summaries: Vec<SstSummary>,
        tails: Vec<Option<Tail>>,
        age: Option<(Seq, Seq)>,
    ) -> Pending<Vec<(usize, SstReader)>> {
        let Context { shared, logs, tables, .. } = context;
        let metas = self.files.iter().zip(summaries).map(|(file, summary)| {
            let meta = summary.into_meta(file.number);
            let (seq_min, seq_max) = age.unwrap_or((meta.seq_min, meta.seq_max));
            Arc::new(FileMeta { seq_min, seq_max, ..meta })
        });
        self.metas = metas.collect();
        let named = |file: &OutputFile| file.file.clone().map(|open| (open, file.path.clone()));
        let files: Vec<_> = self.files.iter().filter_map(named).collect();
        let links = self.metas.iter().flat_map(|meta| links(&shared.dir, meta));
        let links: Vec<_> = links.collect();
        let written: Vec<_> = self.metas.iter().cloned().zip(tails).enumerate().collect();
        let tables = tables.clone();
        let (env, logs, given_up) = (shared.env.clone(), logs.clone(), self.given_up.clone());
        let failure = self.failure();
        shared.io.submit(move || {
            for (from, to) in links {
                let linked = link(&**env.fs(), &from, &to);
                if let (Ok(false), Some(logs)) = (&linked, &logs) {
                    logs.note_copied();
                }
                if linked.is_ok() && given_up.load(Ordering::SeqCst) {
                    let _ = env.fs().remove(&to);
                }
                linked.map_err(&failure)?;
            }
            for (file, path) in files {
                let skipped = planted::is(Bug::SstSyncSkipped);
                let synced = if skipped { Ok(()) } else { file.sync() };
                synced.map_err(|error| failure(Error::io("cannot sync SST", &path, error)))?;
            }
            let mut readers = Vec::new();
            for (index, (meta, tail)) in written {
                if let Some(tail) = tail {
                    let reader = tables.open_written(&meta, tail).map_err(&failure)?;
                    readers.extend(reader.map(|reader| (index, reader)));
                }
            }
            Ok(readers)
        })
    }

    /// The files as the manifest records them, in key order.
    pub fn metas(&self) -> Vec<Arc<FileMeta>> {
        self.metas.clone()
    }

    /// The bytes handed to the device, and the number of files.
    pub fn written(&self) -> (Bytes, u64) {
        (Bytes(self.bytes), self.files.len() as u64)
    }

    /// Removes the files in the background. Returns the wasted bytes.
    pub fn discard(self, shared: &Arc<Shared>) -> Bytes {
        self.given_up.store(true, Ordering::SeqCst);
        let links = self.metas.iter().flat_map(|meta| links(&shared.dir, meta));
        let links = links.map(|(_, to)| to);
        let paths: Vec<_> = self.files.into_iter().map(|file| file.path).chain(links).collect();
        let env = shared.env.clone();
        shared.in_background(move || {
            for path in paths {
                // If this fails, the next open finds and removes the file.
                let _ = env.fs().remove(&path);
            }
        });
        Bytes(self.bytes)
    }
}
