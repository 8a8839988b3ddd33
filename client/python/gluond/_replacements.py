"""Names of MXNet's that gluond lacks, and their replacements."""

from __future__ import annotations

from typing import Dict

_TRAINING = "train a symbol with mx.mod.Module, or with gluon.Trainer; saved models are read by mx.mod.Module.load"
_BOXES = "images with boxes come from mx.image.ImageDetIter, or from gluon.data.vision.ImageRecordDataset"
_ARRAYS = "arrays are MXNet 1.x's mx.nd.NDArray"
_OPERATORS = "operators are written with mx.operator.CustomOp, or in C++ on the server"
_LIBRARY = "there is no library of MXNet's to call: the server computes"
_WORKERS = (
    "DataLoader(..., num_workers=...) starts its own workers, whose batches are numpy arrays until they are with their parent"
)
_PRECISION = "a network trains in half precision after net.cast('float16'), with gluon.Trainer(..., {'multi_precision': True})"
_STORAGE = "arrays of the server are dense"


def _all_of(names: str, instead: str) -> Dict[str, str]:
    return dict.fromkeys(names.split(), instead)


_INSTEAD = {
    "onnx": "networks are files of MXNet's: net.export(...), gluon.SymbolBlock.imports(...)",
    "quantization": "models are trained and served in float types; net.cast('float16') halves them",
    "tensorboard": "model.fit(...).plot('curve.svg') draws the history, and mx.callback has functions for each batch",
    "svrg_optimization": "use mx.mod.Module with another optimizer",
    "batchify": "gluon.data.DataLoader takes a batchify_fn of the program's own",
    **{f"WikiText{size}": "nothing is downloaded; mx.contrib.text has vocabularies" for size in ("2", "103")},
    "KVStoreServer": "one gluond server keeps the arrays",
    "kvstore_server": "one gluond server keeps the arrays",
    "libinfo": "there is no library of MXNet's to find",
    "misc": "use mx.lr_scheduler",
    "notebook": "model.fit(...).plot('curve.svg') draws the history",
    **_all_of("torch th", "arrays go through x.asnumpy()"),
    "executor_manager": _TRAINING,
    "DataParallelExecutorManager": _TRAINING,
    "DataParallelExecutorGroup": _TRAINING,
    **_all_of("subgraph tensorrt", "a graph runs as the server sees fit"),
    "ImageDetRecordIter": _BOXES,
    "library": _OPERATORS,
    "rtc": _OPERATORS,
    "FeedForward": _TRAINING,
    "np": _ARRAYS,
    "npx": _ARRAYS,
    "numpy": _ARRAYS,
    "numpy_extension": _ARRAYS,
    "profiler": "the answer to each TrainStep says where its time went (Timing in docs/wire.md)",
    **_all_of("sparse NotSupportedForSparseNDArray CSRNDArray RowSparseNDArray", _STORAGE),
    **_all_of("sparse_array create_sparse_array create_sparse_array_zd rand_sparse_ndarray shuffle_csr_column_indices", _STORAGE),
    "LBSGD": "use mx.optimizer.LARS, or a schedule of mx.lr_scheduler with warmup_steps",
    "MXDataIter": "iterators are mx.io.NDArrayIter, CSVIter, ImageRecordIter and so on, or subclasses of mx.io.DataIter",
    **_all_of(
        """_LIB check_call c_str c_array c_str_array c_handle_array c_array_buf mx_uint mx_float mx_float_p NDArrayHandle SymbolHandle
        ExecutorHandle _new_empty_handle ctypes2buffer ctypes2numpy_shared MXCallbackList build_param_doc get_last_ffi_error c2pyerror
        _ctypes _cy3 _ffi _api_internal _global_var api cython tvmop space gen__internal gen_op gen_contrib gen_linalg gen_sparse gen_image
        gen_random NDArrayBase SymbolBase add_fileline_to_docstring DLContext DLDataType DLTensor DLManagedTensor dl_managed_tensor_deleter
        has_tvm_ops OperatorArguments set_kvstore_handle indexing_key_expand_implicit_axes get_indexing_dispatch_code
        get_oshape_of_gather_nd_op check_boolean_array_dimension""",
        _LIBRARY,
    ),
    **_all_of(
        "mx opt ctx kvs symbol_contrib",
        "import gluond as mx; mx.optimizer, mx.context, mx.kvstore and mx.sym.contrib are its modules",
    ),
    **_all_of("cv2 h5py pi with_metaclass", "it is no name of MXNet's: import it, or write it, by itself"),
    **_all_of("text C _constants", "nothing is downloaded; mx.contrib.text has vocabularies"),
    **_all_of(
        "backward_gradientmultiplier backward_hawkesll backward_index_copy backward_quadratic",
        "gradients come from mx.autograd.grad",
    ),
    **_all_of(
        "get_identity_mat get_identity_mat_batch checkShapes locationError check_gluon_hybridize_consistency",
        "a test makes its arrays with numpy, and compares them with mx.test_utils.assert_almost_equal",
    ),
    "make_aux": "write the auxiliary head with gluon.nn",
    "bfloat16": "numpy has no such dtype; net.cast('float16') halves a network",
    **_all_of("ndarray_doc symbol_doc _numpy_op_doc", "each operator has a docstring of its own: help(mx.nd.relu)"),
    **_all_of(
        "np_symbol numpy_dispatch_protocol numpy_op_fallback numpy_op_signature np_ufunc_legal_option wrap_np_unary_func "
        "wrap_np_binary_func",
        _ARRAYS,
    ),
    **_all_of("error error_types register_error", "errors are mx.MXNetError and Python's own"),
    **_all_of(
        "worker_loop worker_loop_v1 fetcher_loop_v1 rebuild_ndarray reduce_ndarray rebuild_np_ndarray reduce_np_ndarray Queue "
        "SimpleQueue ConnectionWrapper DataLoaderV1 _MultiWorkerIterV1 _worker_fn _thread_worker_fn _worker_initializer _thread_worker_initializer "
        "_worker_dataset _batchify",
        _WORKERS,
    ),
    **_all_of(
        "lists loss_scaler LossScaler convert_bucketing_module list_lp16_ops list_fp32_ops list_lp16_fp32_ops list_widest_type_cast "
        "list_conditional_fp32_ops list_loss_output_functions list_lp16_use_fp32_params",
        _PRECISION,
    ),
    "quant": "models are trained and served in float types; net.cast('float16') halves them",
    "storage": "the server owns the memory; mx.context.gpu_memory_info counts it",
    "_INITIALIZER_REGISTRY": "mx.init.register adds an initializer, and mx.init.create finds it",
    "register": "dir(mx.nd) and dir(mx.sym) list the server's operators",
    "data_dir_default": "mx.base.data_dir() is the folder",
    "get_lib_path": "there is no library of MXNet's to find",
    "SKLEARN_INSTALLED": _TRAINING,
    **_all_of(
        "get_mnist_pkl get_cifar10 get_zip_data get_bz2_data download_model apache_repo_url",
        "nothing is downloaded; gluon.data.vision reads local files",
    ),
    **_all_of("get_im2rec_path", "mx.recordio.MXIndexedRecordIO writes files of images"),
    "get_gpu_memory": "mx.context.gpu_memory_info counts it",
    "get_cuda_compute_capability": "the server knows its GPUs",
    "PythonOp": _OPERATORS,
    "estimator": "train with autograd.record(), backward() and gluon.Trainer; gluond.progress.Progress shows how far",
}
# Operators and functions of MXNet's that are not here. Their names, or how these begin, before what is to be done.
_OPERATORS_INSTEAD = (
    ("imdecode", "use mx.image.imdecode"),
    ("group_adagrad_update", "use mx.optimizer.contrib.GroupAdaGrad"),
    ("quantize quantize_ dequantize requantize quantized_ calibrate_entropy", "models are trained and served in float types"),
    ("dgl_ edge_id getnnz", "arrays of the server are dense, and hold no graphs"),
    ("to_dlpack_ from_dlpack", "values are handed over by x.asnumpy() and mx.nd.array(...)"),
    ("multi_lamb_update multi_mp_lamb_update multi_adamw_update multi_mp_adamw_update", "these write arrays: nd.contrib has them"),
    ("linalg_syevd syevd", "numpy.linalg.eigh(x.asnumpy()) has the eigenvectors as columns"),
    (
        "IdentityAttachKLSparseReg DeformablePSROIPooling MultiProposal PSROIPooling Proposal RROIAlign hawkesll",
        "make it of other operators, or write it as a mx.operator.CustomOp",
    ),
)


def hint(name: str) -> str:
    """The replacement of MXNet's module of this name, for an error; nothing where there is no such module."""
    return f": it is not part of gluond; {_INSTEAD[name]}" if name in _INSTEAD else ""


def operator_hint(name: str) -> str:
    """The replacement of MXNet's operator of this name; nothing where there is no such operator."""
    for names, instead in _OPERATORS_INSTEAD:
        if any(name == each or each.endswith("_") and name.startswith(each) for each in names.split()):
            return f": it is not part of gluond; {instead}"
    return ""
